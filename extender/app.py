"""The composition root: configuration -> cache -> policy -> verbs -> server. No globals; a test builds its own."""

from __future__ import annotations

import gc
import logging
import time
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics

from extender import logs, serving
from extender.cache import Cache
from extender.config import Config
from extender.dump import ClusterDump
from extender.gauges import NodeCollector, StateCollector
from extender.kube.gpurules import GpuRules
from extender.metrics import Metrics
from extender.scoring import make_policy
from extender.server import Limits, Registries, TwoListeners, VerbPaths, create_app
from extender.service import EmbeddedBinder, VerbService
from extender.verbs import VerbSettings
from extender.wire import Reader

_LOG: Final = logging.getLogger(__name__)


@dataclass
class Readiness:
    """Ready when the cluster is known and nobody has asked us to stop."""

    cache: Cache
    draining: bool = field(default=False, init=False)

    def unready(self) -> str:
        """Return why the service should get no requests, "" when it should."""
        if self.draining:
            return "stopping"
        return "" if self.cache.synced else "the cluster's nodes and pods are not known yet"

    def drain(self) -> None:
        """Turn readiness off for good."""
        self.draining = True


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a service that others may want to hold."""

    cache: Cache
    verbs: VerbService
    metrics: Metrics
    readiness: Readiness
    wsgi: TwoListeners


def build_service(config: Config, dump: ClusterDump) -> Service:
    """Put the service together on an embedded cluster."""
    cache = Cache(tentative_seconds=config.verbs.tentative_seconds)
    cache.relist(dump.nodes, dump.pods)
    metrics = Metrics()
    metrics.registry.register(StateCollector(lambda: cache.view, time.monotonic))
    settings = VerbSettings(
        policy=make_policy(config),
        trust_scheduler=config.verbs.counts == "scheduler",
        pass_through_pods_without_gpus=config.verbs.pass_through_pods_without_gpus,
    )
    binder = EmbeddedBinder(cache) if config.verbs.bind else None
    verbs = VerbService(cache, Reader(GpuRules.of(config.gpus), _LOG.info), settings, metrics, binder)
    readiness = Readiness(cache)
    limits = Limits(config.server.max_body_bytes)
    per_node = CollectorRegistry()
    per_node.register(NodeCollector(lambda: cache.view))
    flask = create_app(verbs, readiness, Registries(metrics.registry, per_node), limits)
    paths = VerbPaths(verbs, flask, limits, serving.IdleTrimmer().note)
    return Service(cache, verbs, metrics, readiness, TwoListeners(paths))


def serve(config: Config, dump: ClusterDump) -> None:
    """Serve until a signal ends it; the addresses are printed once the listeners are open.

    Raises:
        InputError: when an address or a certificate cannot be used.
    """
    logs.configure(config.logging)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the scrape and nobody reads them
    serving.tune_malloc()
    service = build_service(config, dump)
    # What lives as long as the process is none of the collector's business: with 50,000 pods a full collection would
    # stop every thread for a second and more (docs/background.md, "Cost").
    gc.collect()
    gc.freeze()
    serving.run(service.wsgi, service.readiness.drain, config.server)
