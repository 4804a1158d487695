"""Judges what is particular to KubeSchedulerConfiguration: versions, strict keys, sampling, profiles. Pure.

Sources: K:pkg/scheduler/apis/config/{types.go,v1/default_plugins.go,validation/validation.go},
`numFeasibleNodesToFind` of schedule_one.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from extender.printable import shown
from extender.schedulerconfig.values import Finding, Values, fault, is_integer, mappings, note, unknown_keys

GROUP: Final = "kubescheduler.config.k8s.io/"
CURRENT: Final = "v1"
_LIVES: Final = {
    "v1alpha2": "1.18 only",
    "v1beta1": "1.19 to 1.22",
    "v1beta2": "1.22 to 1.28 at most",
    "v1beta3": "1.23 to 1.28",
}
_OF_POLICY_TIMES: Final = frozenset({"v1alpha1", "v1alpha2", "v1beta1", "v1beta2"})
_KEYS: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "clientConnection",
        "delayCacheUntilActive",
        "enableContentionProfiling",
        "enableProfiling",
        "extenders",
        "leaderElection",
        "parallelism",
        "percentageOfNodesToScore",
        "percentageOfPlacementsToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
    }
)
_BETA_KEYS: Final = frozenset({"healthzBindAddress", "metricsBindAddress"})
_ALPHA_KEYS: Final = frozenset({"bindTimeoutSeconds", "disablePreemption"})
_PARTS: Final = {
    "leaderElection": frozenset(
        {
            "leaderElect",
            "leaseDuration",
            "renewDeadline",
            "resourceLock",
            "resourceName",
            "resourceNamespace",
            "retryPeriod",
        }
    ),
    "clientConnection": frozenset({"acceptContentTypes", "burst", "contentType", "kubeconfig", "qps"}),
}
_PROFILE_KEYS: Final = frozenset(
    {
        "percentageOfNodesToScore",
        "percentageOfPlacementsToScore",
        "pluginConfig",
        "plugins",
        "schedulerName",
    }
)
_SCORERS: Final = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
MAX_NODE_SCORE: Final = 100
ALL_PERCENT: Final = 100
_FEW_NODES: Final = 100
"""`minFeasibleNodesToFind`: at and below it nothing is sampled."""


def check_version(value: Values) -> Iterator[Finding]:
    """Judge `apiVersion`."""
    api_version = value.get("apiVersion")
    version = api_version.removeprefix(GROUP) if isinstance(api_version, str) else ""
    if version == CURRENT and api_version == GROUP + CURRENT:
        yield note("apiVersion", "v1 is read by kube-scheduler 1.25 and newer.")
    elif isinstance(api_version, str) and api_version.startswith(GROUP) and version in _LIVES:
        yield note("apiVersion", f"{version} is read by {_LIVES[version]}; newer ones do not start with it: write v1.")
    elif version == "v1alpha1":
        yield fault("apiVersion", "v1alpha1 has no extenders; they stood in a Policy then.")
    else:
        yield fault("apiVersion", f"must be {GROUP}{CURRENT} (or one of its betas), got {shown(api_version)}")


def of_policy_times(value: Values) -> bool:
    """Tell whether a kube-scheduler that reads this version (up to 1.22) may have a Policy beside it."""
    return str(value.get("apiVersion")).removeprefix(GROUP) in _OF_POLICY_TIMES


def check_keys(value: Values) -> Iterator[Finding]:
    """Judge the spelling of all keys outside `extenders`; decoding is strict and minds upper and lower case."""
    version = str(value.get("apiVersion")).removeprefix(GROUP)
    beta = _BETA_KEYS if version != CURRENT else frozenset()
    alpha = _ALPHA_KEYS if version.startswith("v1alpha") else frozenset()
    yield from unknown_keys(value, _KEYS | beta | alpha, "")
    for part, known in _PARTS.items():
        section = value.get(part)
        if isinstance(section, Mapping):
            yield from unknown_keys(section, known, part)
        elif section is not None:
            yield fault(part, "must be a mapping")
    profiles = value.get("profiles")
    if profiles is not None and not isinstance(profiles, list):
        yield fault("profiles", "must be a list")
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        if isinstance(profile, Mapping):
            yield from unknown_keys(profile, _PROFILE_KEYS, f"profiles[{index}]")
        else:
            yield fault(f"profiles[{index}]", "must be a mapping")


def check_numbers(value: Values) -> Iterator[Finding]:
    """Judge the ranges that validation checks."""
    for key in ("parallelism", "podInitialBackoffSeconds", "podMaxBackoffSeconds"):
        number = value.get(key)
        if number is not None and (not is_integer(number) or int(str(number)) <= 0):
            yield fault(key, f"must be an integer above 0, got {shown(number)}")
    lock = _section(value, "leaderElection").get("resourceLock")
    if lock is not None and lock != "leases":
        yield fault("leaderElection.resourceLock", f"must be leases, got {shown(lock)}")


def check_profiles(value: Values) -> Iterator[Finding]:
    """Judge profile names, and a lease that a second scheduler would wait for in vain."""
    profiles = mappings(value, "profiles")
    names = [profile.get("schedulerName") for profile in profiles]
    for index, name in enumerate(names):
        path = f"profiles[{index}].schedulerName"
        if not name and len(names) > 1:
            yield fault(path, "must be set when there are several profiles.")
        elif name and name in names[:index]:
            yield fault(path, f"{name} is given twice.")
    if len(profiles) > 1:
        yield note("extenders", "shared by all profiles; only managedResources tells pods apart.")
    yield from _lease(value, [str(name or "default-scheduler") for name in names])


def _lease(value: Values, names: list[str]) -> Iterator[Finding]:
    election = _section(value, "leaderElection")
    waits = election.get("leaderElect", True) is not False
    shared = election.get("resourceName", "kube-scheduler") == "kube-scheduler"
    if names and "default-scheduler" not in names and waits and shared:
        yield note(
            "leaderElection",
            "a second scheduler on the lease kube-scheduler waits for the first to end: give it a resourceName of "
            "its own, or leaderElect: false with one replica.",
        )


def check_sampling(value: Values) -> Iterator[Finding]:
    """Judge `percentageOfNodesToScore`, of the whole file and of each profile (1.26+)."""
    yield from _sampling("percentageOfNodesToScore", value.get("percentageOfNodesToScore"))
    for index, profile in enumerate(mappings(value, "profiles")):
        own = profile.get("percentageOfNodesToScore")
        if own is not None:
            yield from _sampling(f"profiles[{index}].percentageOfNodesToScore", own)


def _sampling(path: str, percent: object) -> Iterator[Finding]:
    if percent is not None and (not is_integer(percent) or not 0 <= int(str(percent)) <= ALL_PERCENT):
        yield fault(path, f"must be an integer from 0 to 100, got {shown(percent)}")
        return
    share = int(str(percent or 0))
    if share == ALL_PERCENT:
        yield note(path, "100: every node that fits is offered, so the best one is among them.")
        return
    said = f"{share}" if share else "adaptive (not set or 0)"
    yield note(
        path,
        f"{said}: the search stops at {nodes_offered(1000, share)} fitting nodes of 1,000 and at "
        f"{nodes_offered(5000, share)} of 5,000, another window each time; packing spreads over them and a plan's node "
        "may not be offered. 100 offers all.",
    )


def nodes_offered(nodes: int, percent: int) -> int:
    """Return how many fitting nodes end the search; `percent` 0 is adaptive (`numFeasibleNodesToFind`)."""
    if nodes < _FEW_NODES or percent >= ALL_PERCENT:
        return nodes
    share = percent or max(5, 50 - nodes // 125)
    return max(_FEW_NODES, nodes * share // 100)


def in_tree_points(value: Values) -> int:
    """Return the most points the in-tree scorers of any profile can add to a node (1200 by default)."""
    return MAX_NODE_SCORE * max((_weights(profile) for profile in mappings(value, "profiles")), default=_weights({}))


def _weights(profile: Values) -> int:
    weights: dict[str, int] = dict(_SCORERS)
    plugins = _section(profile, "plugins")
    for point in ("multiPoint", "score"):
        part = plugins.get(point)
        for plugin in mappings(part, "disabled"):
            for name in list(weights) if plugin.get("name") == "*" else [str(plugin.get("name"))]:
                weights.pop(name, None)
        for plugin in mappings(part, "enabled"):
            name, weight = str(plugin.get("name")), plugin.get("weight")
            # Through multiPoint come plugins of all kinds; only at score is an unknown one surely a scorer.
            if point == "score" or name in _SCORERS:
                weights[name] = weight if isinstance(weight, int) and weight > 0 else 1
    return sum(weights.values())


def _section(value: Values, key: str) -> Values:
    section = value.get(key)
    return section if isinstance(section, Mapping) else {}


COMPONENT_RULES: Final = (check_version, check_keys, check_numbers, check_profiles, check_sampling)
