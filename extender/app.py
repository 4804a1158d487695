"""The composition root: configuration -> cache -> policy -> verbs -> server. No globals; a test builds its own."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, disable_created_metrics

from extender import logs, serving
from extender.cache import Cache
from extender.config import Config
from extender.dump import ClusterDump
from extender.gauges import NodeCollector, StateCollector
from extender.kube.gpurules import GpuRules
from extender.metrics import Metrics
from extender.packing.holds import HoldRules
from extender.packing.policies.planned import Planned
from extender.planmetrics import PlanMetrics
from extender.planning import SOLVE, Planning
from extender.scoring import make_policy
from extender.server import Limits, Registries, TwoListeners, VerbPaths, create_app
from extender.service import Binder, EmbeddedBinder, VerbService
from extender.solverprocess import SolverProcess
from extender.verbs import NOT_SYNCED, VerbSettings
from extender.wire import Reader

if TYPE_CHECKING:
    from extender.kube.client import Configuration
    from extender.live import LiveCluster

_LOG: Final = logging.getLogger(__name__)
# kube-scheduler waits for 2 s as shipped; what takes longer is found done, or not, when it comes again.
_BIND_SECONDS: Final = 5.0


@dataclass
class Readiness:
    """Ready when the cluster is known and nobody has asked us to stop; `trouble` tells why it is not known."""

    cache: Cache
    trouble: Callable[[], str]
    draining: bool = field(default=False, init=False)

    def unready(self) -> str:
        """Return why the service should get no requests, "" when it should."""
        if self.draining:
            return "stopping"
        if self.cache.synced:
            return ""
        trouble = self.trouble()
        return f"{NOT_SYNCED}: {trouble}" if trouble else NOT_SYNCED


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of a service that others may want to hold; its methods are what `serving` calls."""

    cache: Cache
    verbs: VerbService
    metrics: Metrics
    readiness: Readiness
    wsgi: TwoListeners
    live: LiveCluster | None = None
    planning: Planning | None = None

    def start(self) -> None:
        """Begin to follow the cluster, and to plan."""
        for part in (self.live, self.planning):
            if part is not None:
                part.start()

    def drain(self) -> None:
        """Turn readiness off for good."""
        self.readiness.draining = True

    def stop(self) -> None:
        """End what runs beside the requests."""
        for part in (self.planning, self.live):
            if part is not None:
                part.stop()


def build_service(config: Config, dump: ClusterDump) -> Service:
    """Put the service together on an embedded cluster."""
    cache = _cache(config)
    cache.relist(dump.nodes, dump.pods)
    return _assemble(config, cache, Metrics(), EmbeddedBinder(cache))


def build_live_service(config: Config, configuration: Callable[[], Configuration]) -> Service:
    """Put the service together on a live cluster; `configuration` loads the credentials for its API server."""
    # The official client costs half a second and 35 MB, which a file's cluster and its users need not pay.
    from extender.kube.binder import LiveBinder  # noqa: PLC0415
    from extender.kube.client import ApiClient  # noqa: PLC0415
    from extender.live import LiveCluster, pace_of  # noqa: PLC0415

    cache = _cache(config)
    metrics = Metrics()
    api = ApiClient(configuration)
    binding = ApiClient(configuration, timeout_seconds=_BIND_SECONDS)
    live = LiveCluster(cache, api, pace_of(config.cluster), GpuRules.of(config.gpus), metrics)
    return _assemble(config, cache, metrics, LiveBinder(binding, cache), live)


def _cache(config: Config) -> Cache:
    holds = HoldRules(config.verbs.hold_seconds, config.verbs.hold_limit)
    return Cache(tentative_seconds=config.verbs.tentative_seconds, hold_rules=holds)


def _assemble(
    config: Config, cache: Cache, metrics: Metrics, binder: Binder | None, live: LiveCluster | None = None
) -> Service:
    metrics.registry.register(StateCollector(lambda: cache.view, time.monotonic))
    default_counts = "own" if live is None else "scheduler"
    settings = VerbSettings(
        policy=make_policy(config),
        trust_scheduler=(config.verbs.counts or default_counts) == "scheduler",
        pass_through_pods_without_gpus=config.verbs.pass_through_pods_without_gpus,
        ranked_up_to=config.verbs.ranked_up_to,
    )
    offered = binder if config.verbs.bind else None
    wait = 0.0 if live is None else config.verbs.refusal_wait_seconds
    reader = Reader(GpuRules.of(config.gpus), _LOG.info)
    verbs = VerbService(cache, reader, settings, metrics, offered, refusal_wait_seconds=wait)
    readiness = Readiness(cache, lambda: "" if live is None else live.trouble)
    limits = Limits(config.server.max_body_bytes)
    per_node = CollectorRegistry()
    per_node.register(NodeCollector(lambda: cache.view))
    flask = create_app(verbs, readiness, Registries(metrics.registry, per_node), limits)
    paths = VerbPaths(verbs, flask, limits, serving.IdleTrimmer().note)
    return Service(cache, verbs, metrics, readiness, TwoListeners(paths), live, _planning(config, cache, metrics))


def _planning(config: Config, cache: Cache, metrics: Metrics) -> Planning | None:
    """Return what plans for the policy; None when that makes no use of plans."""
    if not config.planning.enabled or config.scoring.policy != Planned().name:
        return None
    return Planning(cache, SolverProcess(SOLVE), config.planning, PlanMetrics(metrics.registry, time.time))


def serve(config: Config, dump: ClusterDump) -> None:
    """Serve a file's cluster until a signal ends it; the addresses are printed once the listeners are open.

    Raises:
        InputError: when an address or a certificate cannot be used.
    """
    _prepare(config)
    service = build_service(config, dump)
    # What lives as long as the process is none of the collector's business: with 50,000 pods a full collection would
    # stop every thread for a second and more (docs/background.md, "Cost").
    gc.collect()
    gc.freeze()
    serving.run(service.wsgi, service, config.server)


def serve_live(config: Config) -> None:
    """Serve the live cluster until a signal ends it; nobody has to be there yet, readiness tells.

    Raises:
        InputError: when an address, a certificate or the way to the API server cannot be used.
    """
    from extender.kube.access import Access  # noqa: PLC0415 - as in build_live_service

    access = Access.find(config.cluster.kubeconfig, config.cluster.context, os.environ)
    _prepare(config)
    _LOG.info("following the cluster of the %s", access)
    service = build_live_service(config, access.configuration)
    serving.run(service.wsgi, service, config.server)


def _prepare(config: Config) -> None:
    logs.configure(config.logging)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the scrape and nobody reads them
    serving.tune_malloc()
    serving.tune_threads()
