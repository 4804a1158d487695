# The extender as a container: pinned and hashed requirements, no compiler, no root.
#
#   docker build --tag gpu-extender .
#   docker run --rm --publish 8888:8888 gpu-extender serve --demo --listen 0.0.0.0:8888

FROM python:3.11-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/gpu-extender
# The requirements are a layer of their own: a change of the code does not install them again.
COPY requirements/runtime.txt requirements/
RUN /opt/gpu-extender/bin/pip install --require-hashes --requirement requirements/runtime.txt
COPY pyproject.toml LICENSE ./
COPY extender extender
RUN /opt/gpu-extender/bin/pip install --no-deps --no-build-isolation .


FROM python:3.11-slim

# The service answers with big, short-lived buffers. With thresholds of 1 GiB malloc keeps and reuses that memory
# instead of returning it to the kernel and page-faulting it in again.
# numpy's arrays are small here: one BLAS thread, or its pool competes with the request threads.
ENV MALLOC_MMAP_THRESHOLD_=1073741824 \
    MALLOC_TRIM_THRESHOLD_=1073741824 \
    OPENBLAS_NUM_THREADS=1 \
    PATH=/opt/gpu-extender/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

COPY --from=build /opt/gpu-extender /opt/gpu-extender

USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["gpu-extender"]
CMD ["serve", "--demo", "--listen", "0.0.0.0:8888"]
