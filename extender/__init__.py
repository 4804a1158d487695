"""A Kubernetes scheduler extender that packs pods onto exclusive GPUs."""

__version__ = "0.1.0"
