"""The service for those who start gunicorn themselves: ``gunicorn -c gunicorn.conf.py`` (see that file).

Configuration comes from the environment alone: ``GPU_EXTENDER_CONFIG`` names the YAML file, ``GPU_EXTENDER_CLUSTER``
the dump of the embedded cluster. ``gpu-extender serve`` does the same and more: TLS, two listeners, readiness off on
stop.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from extender.app import build_service
from extender.config import Config, load_config
from extender.dump import read_dumps
from extender.errors import InputError
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY
from extender.server import TwoListeners

CLUSTER: Final = "GPU_EXTENDER_CLUSTER"


def config_of(env: Mapping[str, str]) -> Config:
    """Return the configuration that the environment gives.

    Raises:
        ConfigError: with every fault.
    """
    path = env.get("GPU_EXTENDER_CONFIG")
    return load_config(Path(path) if path else None, env=env, overrides={}, known_policies=REGISTRY)


def from_environment() -> TwoListeners:
    """Return the WSGI application on the cluster file that the environment names.

    Raises:
        InputError: when the file is not named or cannot be read.
    """
    name = os.environ.get(CLUSTER)
    if not name:
        raise InputError(f"{CLUSTER} must name the dump to serve")
    config = config_of(os.environ)
    try:
        source = (name, Path(name).read_bytes())
    except OSError as error:
        raise InputError(f"{CLUSTER}: {name}: {error.strerror or error}") from error
    return build_service(config, read_dumps([source], GpuRules.of(config.gpus))).wsgi
