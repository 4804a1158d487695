# Needs make, a POSIX shell and Python 3.11 or newer. Everything else goes into .venv, from the pinned and hashed
# requirements. Stamp files in .venv remember what is installed, so nothing is fetched twice.

VENV := .venv
PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

# The Python that .venv is made with: the first of these that is new enough, or `make PYTHON=/path/to/python3`.
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python)

# Test processes, and more arguments for pytest: `make test ARGS="-k fit"`.
JOBS ?= 2
ARGS ?=

RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help venv demo demo-live run test controlplane e2e e2e-full check format lock docs
.PHONY: bench bench-score bench-throughput bench-start bench-busy bench-quality bench-openb bench-planner clean


help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(DEV) ## create .venv with everything for development

demo: $(RUNTIME) ## show the extender at work on an embedded cluster, then stop
	@$(PY) -m extender demo

demo-live: $(RUNTIME) ## the same with real kube-schedulers, a minute (needs Go once, see controlplane/README.md)
	@$(PY) -m controlplane.livedemo

run: $(RUNTIME) ## keep the service running on an embedded cluster (Ctrl-C ends it)
	@$(PY) -m extender serve --demo

test: $(DEV) ## run all tests; those with real kube-schedulers only once they are built
	$(PY) -m pytest -n $(JOBS) $(ARGS)

controlplane: $(DEV) ## build etcd, kube-apiserver and three kube-schedulers for the tests (Go; 15 minutes, once)
	@$(PY) -m controlplane.build

e2e: controlplane ## run the tests with real kube-schedulers alone
	$(PY) -m pytest tests/e2e $(ARGS)

e2e-full: controlplane ## run the one of 1,000 nodes and 2,000 pods (two minutes or more)
	E2E_FULL_SIZE=1 $(PY) -m pytest -s tests/e2e/test_full_size.py $(ARGS)

check: $(DEV) ## lint, formatting, types, import contracts, spelling, documentation
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo
	$(PY) -m codespell_lib
	$(PY) -m pytest -q tests/test_docs.py

format: $(DEV) ## format the code and apply the safe fixes of the linter
	$(PY) -m ruff check --fix-only
	$(PY) -m ruff format

docs: $(DEV) ## write the generated pages of docs/ anew
	$(PY) -m extender.docs
	$(PY) -m benchmarks.page

bench: $(DEV) ## measure latency and throughput
	$(PY) -m benchmarks.latency $(ARGS)

bench-score: $(DEV) ## measure the CPU time of a score beside what the wire costs
	$(PY) -m benchmarks.score_cost $(ARGS)

bench-throughput: controlplane ## measure pods per second of the real kube-scheduler with and without us
	$(PY) -m benchmarks.scheduler_throughput $(ARGS)

bench-start: controlplane ## measure seconds and memory from start to ready with 50,000 pods
	$(PY) -m benchmarks.start_to_ready $(ARGS)

bench-busy: controlplane ## measure the latency of the verbs while the planner solves
	$(PY) -m benchmarks.planner_busy $(ARGS)

bench-quality: $(DEV) ## measure packing quality against every other policy
	$(PY) -m benchmarks.quality $(ARGS)

bench-openb: $(DEV) ## measure packing quality on the trace openb: make bench-openb ARGS="--data FOLDER"
	$(PY) -m benchmarks.openb_quality $(ARGS)

bench-planner: $(DEV) ## measure joint plans: time, and how far from what is proved
	$(PY) -m benchmarks.planner $(ARGS)

# Keeps the pins that still fit; `make lock ARGS=--upgrade` moves all of them to the newest.
LOCK = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" $(ARGS)

lock: $(DEV) ## write requirements/*.txt anew from pyproject.toml and requirements/*.in
	$(LOCK) pyproject.toml requirements/runtime.in --output-file requirements/runtime.txt
	$(LOCK) pyproject.toml requirements/dev.in --output-file requirements/dev.txt

clean: ## remove .venv, caches and build results
	rm -rf $(VENV) dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +


# ---------------------------------------------------------------- installation

# What is about to happen, and how long nothing more will be said.
define ANNOUNCE
@echo "fetching and installing $$(grep -c == $(1)) pinned packages into $(VENV), 450 MB unpacked: this once, a minute or"
@echo "two on a fast network, several on a slow one; nothing is printed meanwhile"
endef

# Finish with the project itself: editable, nothing fetched, built by the pinned flit_core.
define INSTALL_PROJECT
$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
endef

$(VENV)/.created:
	@for python in $(PYTHONS); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; \
		python=; \
	done; \
	if [ -z "$$python" ]; then \
		echo "gpu-extender needs Python 3.11 or newer; tried: $(PYTHONS). Choose one: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	echo "creating $(VENV) with $$("$$python" --version) ($$(command -v "$$python")): some seconds"; \
	if ! "$$python" -m venv $(VENV); then \
		rm -rf $(VENV); \
		echo "$$python cannot create virtual environments; on Debian and Ubuntu install the package python3-venv" >&2; \
		exit 1; \
	fi
	@touch $@

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(VENV)/.created
	$(call ANNOUNCE,requirements/runtime.txt)
	@$(PIP_INSTALL) --require-hashes --requirement requirements/runtime.txt
	@$(INSTALL_PROJECT)
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml | $(VENV)/.created
	$(call ANNOUNCE,requirements/dev.txt)
	@$(PIP_INSTALL) --require-hashes --requirement requirements/dev.txt
	@$(INSTALL_PROJECT)
	@touch $(RUNTIME) $@
