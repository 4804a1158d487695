"""What one registered extender means: each rule is a small function, `EXTENDER_RULES` has them in print order.

Sources: K:pkg/scheduler/{extender,schedule_one}.go and apis/config/validation/validation.go; numbers of the
in-tree scorers from apis/config/v1/default_plugins.go. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from extender.kube.gpurules import GpuRules
from extender.printable import shown
from extender.schedulerconfig.values import (
    DEFAULT_TIMEOUT_SECONDS,
    Extender,
    Finding,
    Managed,
    doubt,
    fault,
    note,
)
from extender.settings import Verbs

OUR_PORT: Final = 8888
MAX_SCORE: Final = 10
POINTS_PER_STEP: Final = 10
"""MaxNodeScore 100 / MaxExtenderPriority 10: what kube-scheduler 1.17+ multiplies an extender's score by."""

LONG_TIMEOUT_SECONDS: Final = 10.0
SHORT_TIMEOUT_SECONDS: Final = 0.1
_LEAST_ALLOCATED_POINTS: Final = 100
_QUALIFIED_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)


def ours(extender: Extender) -> Iterator[Finding]:
    """Say when this does not look like our own registration, or is ours and names a verb that we do not answer."""
    known = f":{OUR_PORT}" in extender.url_prefix or "gpu-extender" in extender.url_prefix
    verbs = {
        "filter": extender.filter_verb,
        "prioritize": extender.prioritize_verb,
        "preempt": extender.preempt_verb,
        "bind": extender.bind_verb,
    }
    strange = {name: verb for name, verb in verbs.items() if verb and verb.rstrip("/").split("/")[-1] != name}
    if known:
        for name, verb in strange.items():
            yield fault(
                extender.at(f"{name}Verb"),
                f"{shown(verb)} is none of gpu-extender's verbs (filter, prioritize, preempt, bind): every call is a "
                f"404. Write {name}Verb: {name}.",
            )
    elif strange:
        listed = ", ".join(f"{name}Verb {verb}" for name, verb in strange.items())
        yield note(
            extender.path,
            f"not gpu-extender's: it answers filter, prioritize, preempt and bind, so {listed} would be 404. Judged "
            "all the same.",
        )
    else:
        yield note(
            extender.at("urlPrefix"),
            f"not the port gpu-extender ships with ({OUR_PORT}); if this is another extender, the rest holds for it "
            "too.",
        )


def address(extender: Extender) -> Iterator[Finding]:
    """Judge `urlPrefix`, which kube-scheduler itself does not check."""
    path = extender.at("urlPrefix")
    host = _host(extender.url_prefix)
    if not host:
        yield fault(path, f"{shown(extender.url_prefix)} is no http:// or https:// address: every call fails.")
        return
    if ".svc" in host:
        yield note(
            path,
            "kube-scheduler mostly runs on the host's network, where cluster DNS names do not resolve: use a "
            "cluster IP, a sidecar or dnsPolicy ClusterFirstWithHostNet.",
        )
    if not host.startswith(("127.", "localhost", "[::1]")):
        yield note(path, "HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the kube-scheduler process apply to these calls.")


def _host(url: str) -> str:
    match = re.match(r"https?://([^/?#]+)", url)
    return match[1].rpartition("@")[2].lower() if match else ""


def tls(extender: Extender) -> Iterator[Finding]:
    """Judge `enableHTTPS` and `tlsConfig` (`makeTransport`: the scheme is in the URL, not here)."""
    given = extender.tls or {}
    has_ca = bool(given.get("caFile") or given.get("caData"))
    https = extender.url_prefix.startswith("https:")
    switch = extender.at("enableHttps" if extender.legacy else "enableHTTPS")
    if given.get("insecure") and has_ca:
        yield fault(extender.at("tlsConfig.insecure"), "together with a CA it stops kube-scheduler at start.")
    elif given.get("insecure"):
        yield note(extender.at("tlsConfig.insecure"), "the extender's certificate is not verified.")
    elif extender.enable_https and https and not has_ca:
        yield note(
            switch,
            "without tlsConfig.caFile or caData the extender's certificate is not verified: anybody in between can "
            "answer. Name the CA.",
        )
    if extender.enable_https and not https:
        yield doubt(switch, "does not choose the scheme: urlPrefix says http, so nothing is encrypted.")
    for cert, key in (("certFile", "keyFile"), ("certData", "keyData")):
        if bool(given.get(cert)) != bool(given.get(key)):
            yield doubt(extender.at("tlsConfig"), f"{cert} and {key} go together; one alone is not used.")


def timeout(extender: Extender) -> Iterator[Finding]:
    """Say how long one call may hold the scheduler, whose cycle is serial."""
    path = extender.at("httpTimeout")
    seconds = extender.timeout_seconds
    if not seconds:
        yield note(path, f"not set, so {DEFAULT_TIMEOUT_SECONDS:g} s: a hung extender holds every pod that long.")
    elif seconds < SHORT_TIMEOUT_SECONDS:
        hint = " A Policy counts nanoseconds: 2 s is 2000000000." if extender.legacy else ""
        yield doubt(path, f"{seconds:g} s is too short, calls will time out.{hint}")
    elif seconds > LONG_TIMEOUT_SECONDS:
        yield note(path, f"a hung extender holds the whole scheduler up to {seconds:g} s for each verb.")


def weigh(extender: Extender, in_tree: int) -> Iterator[Finding]:
    """Weigh our score against the in-tree scorers, which can add at most `in_tree` points."""
    path = extender.at("weight")
    if not extender.prioritize_verb:
        if extender.weight:
            yield doubt(path, "has no effect without prioritizeVerb.")
        return
    if extender.weight is None or extender.weight <= 0:
        yield fault(path, "must be positive when prioritizeVerb is set; kube-scheduler does not start.")
        return
    step = extender.weight * POINTS_PER_STEP
    older = " (before 1.17 all points are a tenth, the proportion is the same)" if extender.legacy else ""
    yield note(
        path,
        f"{extender.weight}: one step of our score is worth {step} points, the whole range 0..10 "
        f"{step * MAX_SCORE}; the in-tree scorers can add {in_tree}{older}. {_standing(step, in_tree)}"
        f"{_alone() if step <= in_tree else ''}",
    )


def _alone() -> str:
    return (
        f" Of more than {Verbs().ranked_up_to:,} candidates we name the best alone, with all 10 steps; "
        "verbs.ranked_up_to of our configuration has more of them ranked."
    )


def _standing(step: int, in_tree: int) -> str:
    decisive = in_tree // POINTS_PER_STEP + 1
    if step > in_tree:
        return "Decisive: one step beats all of them together, preferred affinity and spreading included."
    if step * MAX_SCORE > in_tree:
        return f"Strong: the whole range beats them, one step does not; decisive is {decisive} or more."
    if step * MAX_SCORE == in_tree:
        return f"Parity: our best score just balances all of them; decisive is {decisive} or more."
    drowned = " LeastAllocated alone, which spreads pods, drowns one step." if step < _LEAST_ALLOCATED_POINTS else ""
    return f"Advisory: together they outvote our best score; decisive is {decisive} or more.{drowned}"


def verbs(extender: Extender) -> Iterator[Finding]:
    """Say what is lost with each verb that is missing."""
    lost = {
        "filterVerb": (extender.filter_verb, "GPU types, memory and CUDA levels asked by annotation are not enforced."),
        "prioritizeVerb": (extender.prioritize_verb, "nodes are not scored, so nothing is packed."),
        "preemptVerb": (
            extender.preempt_verb,
            "pods may be evicted from a node whose GPU model the waiting pod cannot use.",
        ),
    }
    for key, (verb, words) in lost.items():
        if not verb:
            yield note(extender.at(key), f"missing: {words}")
    if extender.bind_verb:
        yield note(
            extender.at("bindVerb"),
            "we bind these pods, which needs verbs.bind: true in gpu-extender's own configuration (else 404 and "
            "nothing is bound) and the right to create pods/binding. Only one extender may bind.",
        )


def when_down(extender: Extender) -> Iterator[Finding]:
    """Say what an outage of the extender does, from `ignorable` and `bindVerb` together (#122494)."""
    pods = "GPU pods" if extender.managed else "all pods"
    words = {
        (
            True,
            True,
        ): "filter is skipped, but bind fails on older schedulers, so pods stay Pending; newer ones fall back "
        "to the default binder and may place GPU pods without packing and of the wrong type.",
        (True, False): f"{pods} wait until the extender is back (safe).",
        (False, True): "pods are scheduled without packing and without our type checks, bound by kube-scheduler.",
        (False, False): f"{pods} wait until the extender is back (safe); once scored, kube-scheduler binds them.",
    }[bool(extender.bind_verb), extender.ignorable]
    state = "true" if extender.ignorable else "false"
    binder = "with" if extender.bind_verb else "without"
    yield note(extender.at("ignorable"), f"{state}, {binder} bindVerb. While the extender is down: {words}")


def node_cache(extender: Extender) -> Iterator[Finding]:
    """Say what full node objects in each call cost."""
    if not extender.node_cache_capable:
        yield note(
            extender.at("nodeCacheCapable"),
            "false: every call carries all nodes in full, under 10 pods per second above 1,000 nodes; and from about "
            "1.34 in-tree scorers see the returned nodes as idle (kubernetes#141781). gpu-extender has its own "
            "cache: set true.",
        )


def managed(extender: Extender) -> Iterator[Finding]:
    """Judge `managedResources`: which pods are sent, and names validation refuses."""
    path = extender.at("managedResources")
    if not extender.managed:
        outage = "" if extender.ignorable else " An outage then stops all of them, the extender's own pods included."
        yield note(path, f"empty: every pod of every profile is sent, also those without GPUs.{outage}")
        return
    names = ", ".join(entry.name for entry in extender.managed)
    yield note(path, f"only pods whose containers name {names} are sent; DRA claims and pod-level requests are not.")
    for entry in extender.managed:
        yield from _managed_name(entry, f"{entry.path}.name")
        if entry.ignored_by_scheduler:
            yield note(
                f"{entry.path}.ignoredByScheduler",
                f"NodeResourcesFit stops counting {entry.name} (this replaces its own ignoredResources): set "
                "verbs.counts: own in gpu-extender. kubelet and autoscaler still count it, CPU-only nodes fill the "
                "sample, and preemption finds no victims before kubernetes#135486.",
            )


def _managed_name(entry: Managed, path: str) -> Iterator[Finding]:
    """`validateExtendedResourceName`; the 1.6-era resource falls to its `kubernetes.io/` rule."""
    name = shown(entry.name)
    if "kubernetes.io/" in entry.name:
        yield fault(path, f"{name} holds kubernetes.io/ and is refused at start; leave managedResources out.")
    elif "/" not in entry.name:
        yield fault(path, f"{name} has no / and is refused at start: only extended resources may stand here.")
    elif entry.name.startswith("requests."):
        yield fault(path, f"{name} starts with requests. and is refused at start.")
    elif not _QUALIFIED_NAME.fullmatch(entry.name):
        yield fault(path, f"{name} is no valid resource name and is refused at start.")
    elif meant := GpuRules.default().nearly(entry.name):
        yield doubt(
            path, f"{name} is no GPU resource by default, pods that ask for {meant} are not sent; is it a typo?"
        )


EXTENDER_RULES: Final[tuple[Callable[[Extender], Iterator[Finding]], ...]] = (
    ours,
    address,
    tls,
    timeout,
    verbs,
    when_down,
    node_cache,
    managed,
)


def among(extenders: tuple[Extender, ...], path: str, *, legacy: bool, beside_policy: bool) -> Iterator[Finding]:
    """Judge all extenders of a file together; `beside_policy`: a Policy that registers them may stand beside it."""
    binders = [extender.path for extender in extenders if extender.bind_verb]
    if len(binders) > 1:
        yield fault(path, f"{len(binders)} set bindVerb ({', '.join(binders)}); only one may, kube-scheduler refuses.")
    first: dict[str, str] = {}
    for entry in (entry for extender in extenders for entry in extender.managed):
        if entry.name in first:
            yield fault(f"{entry.path}.name", f"{entry.name} is managed by {first[entry.name]} already; refused.")
        first.setdefault(entry.name, entry.path)
    if not extenders and beside_policy:
        yield note(
            path,
            "none registered here, as it should be where a Policy beside this file does it (--policy-config-file, up "
            "to 1.22; then this file adds what a Policy has no place for). Without one gpu-extender is never asked.",
        )
    elif not extenders:
        yield note(path, "none registered: gpu-extender is never asked.")
    elif not legacy:
        yield note(
            path,
            "with any extender, kube-scheduler 1.35 and newer switch opportunistic batching off for all pods of all "
            "profiles.",
        )
