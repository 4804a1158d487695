"""The composition root: configuration -> cache -> policy -> verbs -> server. No globals; a test builds its own."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, disable_created_metrics

from extender import logs, serving
from extender.cache import Cache
from extender.config import Config
from extender.dump import ClusterDump
from extender.gauges import NodeCollector, StateCollector
from extender.httpd import malloc
from extender.httpd.rules import Rules
from extender.journal import BindJournal, Rebinding
from extender.kube.gpurules import GpuRules
from extender.metrics import Metrics
from extender.packing.forecast import Answer, Question
from extender.packing.holds import HoldRules
from extender.packing.policies.planned import Planned
from extender.planmetrics import PlanMetrics
from extender.planning import SOLVE, Planning
from extender.scoring import make_policy
from extender.server import Registries, TwoListeners, VerbPaths, create_app
from extender.service import Binder, EmbeddedBinder, VerbService
from extender.solverprocess import SolverProcess
from extender.verbs import NOT_SYNCED, VerbSettings
from extender.wire import Reader

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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


class Beside(Protocol):
    """What runs beside the requests, in the process that answers them."""

    def start(self) -> None:
        """Begin; return at once."""
        ...

    def stop(self) -> None:
        """End, within seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """The service: its parts, which others may want to hold, and what `serving` and `httpd` call.

    Attributes:
        source: where the cluster comes from, in words.
        beside: what runs beside the requests, in the order in which it begins.
    """

    cache: Cache
    verbs: VerbService
    metrics: Metrics
    readiness: Readiness
    wsgi: TwoListeners
    rules: Rules
    source: str
    beside: tuple[Beside, ...] = ()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self.wsgi(environ, start_response)

    def separate(self, host: str, port: int) -> None:
        """Serve operators on the listener bound to this address only."""
        self.wsgi.separate(host, port)

    def announce(self, url: str, operators_url: str) -> Iterable[str]:
        """Return lines that say what is served and where."""
        yield f"serving {self.source}"
        yield f"verbs: POST {url}/<any prefix>/{{{','.join(self.verbs.offered)}}}"
        yield f"metrics: {operators_url}/metrics"

    def cut(self, why: str) -> None:
        """Count a connection that was ended before a request was known."""
        self.metrics.cut(why)

    def start(self) -> None:
        """Begin what runs beside the requests."""
        for part in self.beside:
            part.start()

    def drain(self) -> None:
        """Turn readiness off for good."""
        self.readiness.draining = True

    def stop(self) -> None:
        """End what runs beside the requests."""
        for part in reversed(self.beside):
            part.stop()


def build_service(config: Config, dump: ClusterDump, journal: BindJournal | None = None) -> Service:
    """Put the service together on an embedded cluster; a journal keeps its binds beyond the process that answers."""
    cache = _cache(config)
    cache.relist(dump.nodes, dump.pods)
    service = _assemble(config, cache, Metrics(), EmbeddedBinder(cache, journal), _contents(dump))
    return service if journal is None else replace(service, beside=(Rebinding(cache, journal), *service.beside))


def _contents(dump: ClusterDump) -> str:
    gpus = sum(
        node.allocatable.get(resource, 0)
        for node in dump.nodes
        for resource, model in node.gpus.items()
        if model.exclusive
    )
    return f"an embedded cluster: {len(dump.nodes)} nodes, {len(dump.pods)} pods, {gpus} GPUs"


def build_live_service(config: Config, configuration: Callable[[], Configuration], access: str = "") -> Service:
    """Put the service together on a live cluster.

    `configuration` loads the credentials for its API server, `access` says in words where they come from.
    """
    # The official client costs half a second and 35 MB, which a file's cluster and its users need not pay.
    from extender.kube.binder import LiveBinder  # noqa: PLC0415
    from extender.kube.client import ApiClient  # noqa: PLC0415
    from extender.live import LiveCluster, pace_of  # noqa: PLC0415

    cache = _cache(config)
    metrics = Metrics()
    api = ApiClient(configuration)
    binding = ApiClient(configuration, timeout_seconds=_BIND_SECONDS)
    live = LiveCluster(cache, api, pace_of(config.cluster), GpuRules.of(config.gpus), metrics)
    return _assemble(config, cache, metrics, LiveBinder(binding, cache), f"the live cluster of the {access}", live)


def _cache(config: Config) -> Cache:
    holds = HoldRules(config.verbs.hold_seconds, config.verbs.hold_limit)
    return Cache(tentative_seconds=config.verbs.tentative_seconds, hold_rules=holds)


def _assemble(
    config: Config, cache: Cache, metrics: Metrics, binder: Binder, source: str, live: LiveCluster | None = None
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
    # What the pods of a live cluster say that we cannot use is told when the watch shows them.
    reader = Reader(GpuRules.of(config.gpus), _LOG.warning if live is None else _LOG.debug)
    verbs = VerbService(cache, reader, settings, metrics, offered, refusal_wait_seconds=wait)
    readiness = Readiness(cache, lambda: "" if live is None else live.trouble)
    server = config.server
    rules = Rules(server.request_timeout_seconds, server.keep_alive_seconds, server.max_body_bytes)
    per_node = CollectorRegistry()
    per_node.register(NodeCollector(lambda: cache.view))
    wsgi = TwoListeners(VerbPaths(verbs, create_app(verbs, readiness, Registries(metrics.registry, per_node))))
    beside = () if live is None else (live,)
    return Service(cache, verbs, metrics, readiness, wsgi, rules, source, (*beside, *_planning(config, cache, metrics)))


def _planning(config: Config, cache: Cache, metrics: Metrics) -> Iterator[Planning]:
    """Return what plans for the policy, unless that makes no use of plans."""
    policy = make_policy(config)
    if config.planning.enabled and isinstance(policy, Planned):
        plan_metrics = PlanMetrics(metrics.registry, time.time)
        solver = SolverProcess[Question, Answer](SOLVE, start_seconds=config.planning.start_seconds)
        yield Planning(cache, solver, config.planning, plan_metrics, follows=policy.follows_quotas)


def serve(config: Config, dump: ClusterDump) -> None:
    """Serve a file's cluster until a signal ends it; the addresses are printed once the listeners are open.

    Raises:
        InputError: when an address or a certificate cannot be used.
        ListenError: when another program listens on an address.
    """
    _prepare(config)
    with closing(BindJournal.open(serving.memory_folder())) as journal:
        service = build_service(config, dump, journal)
        _freeze()
        serving.run(service, config.server)


def _freeze() -> None:
    # What lives as long as the process is none of the collector's business: with 50,000 pods a full collection would
    # stop every thread for a second and more (docs/background.md, "Cost").
    gc.collect()
    gc.freeze()


def serve_live(config: Config) -> None:
    """Serve the live cluster until a signal ends it; nobody has to be there yet, readiness tells.

    Raises:
        InputError: when an address, a certificate or the way to the API server cannot be used.
        ListenError: when another program listens on an address.
    """
    from extender.kube.access import Access  # noqa: PLC0415 - as in build_live_service

    access = Access.find(config.cluster.kubeconfig, config.cluster.context, os.environ)
    _prepare(config)
    serving.run(build_live_service(config, access.configuration, str(access)), config.server)


def _prepare(config: Config) -> None:
    logs.configure(config.logging)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the scrape and nobody reads them
    malloc.tune()
    serving.tune_threads()
