"""Default label keys and resource names that tell GPUs apart. Constants only: no imports, no logic.

The configuration takes these as its defaults (`gpus.*` in `extender/config.py`), so every table can be
replaced by the operator; code must read the configured tables, not these. Order is meaning: the first key
with a usable value wins. Sources: GPU Feature Discovery's README and `internal/lm`; the "Schedule GPUs"
page of Kubernetes 1.3 to 1.10; autoscaler `cloudprovider/{gce,aws,azure,alicloud}`; karpenter-provider-aws
`pkg/apis/v1/labels.go`; ROCm/k8s-device-plugin `cmd/k8s-node-labeller`; Intel's `gpu_plugin/labels.md`.
"""

GPU_RESOURCES: tuple[str, ...] = (
    "nvidia.com/gpu",
    "alpha.kubernetes.io/nvidia-gpu",  # Kubernetes 1.3 to 1.10
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "nvidia.com/mig-*",  # each profile is a resource of its own
)
"""fnmatch patterns of exclusive GPU resources. Never a bare prefix: `gpu.intel.com/monitoring` is no GPU."""

SHARED_RESOURCES: tuple[str, ...] = ("*.shared",)
"""fnmatch patterns of shared GPUs; they win over `GPU_RESOURCES` (`nvidia.com/mig-1g.5gb.shared`)."""

MODEL_LABELS: tuple[str, ...] = (
    "nvidia.com/gpu.product",
    "alpha.kubernetes.io/nvidia-gpu-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "kubernetes.azure.com/accelerator",
    "accelerator",
    "aliyun.accelerator/nvidia_name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
    "amd.com/gpu.product-name",
    "amd.com/product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
)
"""Labels whose value names the GPU model; what was measured stands before what was ordered from a cloud."""

VENDOR_ONLY_VALUES: frozenset[str] = frozenset(
    {"", "nvidia", "nvidia-gpu", "amd", "intel", "gpu", "true", "false", "none", "unknown", "undefined"}
)
"""Values of model labels that name no model (AKS writes `accelerator=nvidia`); lower case, compare folded."""

MEMORY_LABELS: tuple[str, ...] = (
    "nvidia.com/gpu.memory",
    "eks.amazonaws.com/instance-gpu-memory",
    "karpenter.k8s.aws/instance-gpu-memory",
    "amd.com/gpu.vram",
    "amd.com/vram",
    "beta.amd.com/gpu.vram",
)
"""Labels with the memory of one GPU: a bare integer is MiB, `64G` is GiB and `512M` is MiB (AMD's way)."""

COMPUTE_LABELS: tuple[str, ...] = ("nvidia.com/gpu.compute",)
"""Keys of the compute capability: `<key>.major` and `<key>.minor`, or `<key>` with a value like 8.0."""

CUDA_LABELS: tuple[str, ...] = ("nvidia.com/cuda.runtime-version", "nvidia.com/cuda.runtime")
"""Keys of the newest CUDA version the driver runs, read like `COMPUTE_LABELS`; the second is GFD's old name.

`nvidia.com/cuda.driver-version` is the driver's own version (550.54), not a CUDA level.
"""

SHARING_LABELS: tuple[str, ...] = (
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "cloud.google.com/gke-gpu-sharing-strategy",
    "cloud.google.com/gke-max-shared-clients-per-gpu",
    "cloud.google.com/gke-gpu-partition-size",
)
"""Labels that say GPUs are not handed out whole: an integer above 1, or a word that is not `none`."""
