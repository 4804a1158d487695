"""The service for those who start gunicorn themselves: ``gunicorn -c gunicorn.conf.py`` (see that file).

Configuration comes from the environment alone: ``GPU_EXTENDER_CONFIG`` names the YAML file, ``GPU_EXTENDER_CLUSTER``
the dump of the embedded cluster. ``gpu-extender serve`` does the same and more: TLS, two listeners, a live cluster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from extender.app import Service, build_service
from extender.config import load_config
from extender.dump import read_dumps
from extender.errors import InputError
from extender.journal import BindJournal
from extender.kube.gpurules import GpuRules
from extender.packing.policies import REGISTRY
from extender.serving import memory_folder

CLUSTER: Final = "GPU_EXTENDER_CLUSTER"


def from_environment() -> Service:
    """Return the service, a WSGI application, on the cluster file that the environment names.

    Raises:
        InputError: when the file is not named or cannot be read.
    """
    name = os.environ.get(CLUSTER)
    if not name:
        raise InputError(f"{CLUSTER} must name the dump to serve")
    config = load_config(None, env=os.environ, overrides={}, known_policies=REGISTRY)
    try:
        source = (name, Path(name).read_bytes())
    except OSError as error:
        raise InputError(f"{CLUSTER}: {name}: {error.strerror or error}") from error
    journal = BindJournal.open(memory_folder())
    return build_service(config, read_dumps([source], GpuRules.of(config.gpus)), journal)
