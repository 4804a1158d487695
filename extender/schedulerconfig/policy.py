"""Judges what is particular to the legacy Policy: names of predicates and priorities, keys of every era. Pure.

Sources: plugin/pkg/scheduler/algorithmprovider/defaults @v1.4 to v1.8, pkg/scheduler/framework/plugins/
legacy_registry.go @v1.22, factory `CreateFromConfig` @v1.7. Starts and refusals were tried with kube-scheduler
1.22.17: it reads extenders leniently and everything else strictly, which older releases did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from extender.printable import shown
from extender.schedulerconfig.values import Finding, Values, fault, is_integer, mappings, note
from extender.spelling import nearest

API_VERSIONS: Final = ("v1", "kubescheduler.config.k8s.io/v1")
_KEYS: Final = (
    "kind",
    "apiVersion",
    "predicates",
    "priorities",
    "extenders",
    "hardPodAffinitySymmetricWeight",
    "alwaysCheckAllPredicates",
)
_PREDICATE_KEYS: Final = ("name", "argument")
_PRIORITY_KEYS: Final = ("name", "weight", "argument")
_STRICT: Final = "1.22 does not start with it, older releases leave it out in silence"
_PREDICATES_OF_1_22: Final = frozenset(
    {
        "CheckNodeLabelPresence",
        "CheckNodeUnschedulable",
        "CheckServiceAffinity",
        "CheckVolumeBinding",
        "EvenPodsSpread",
        "GeneralPredicates",
        "HostName",
        "MatchInterPodAffinity",
        "MatchNodeSelector",
        "MaxAzureDiskVolumeCount",
        "MaxCSIVolumeCountPred",
        "MaxCinderVolumeCount",
        "MaxEBSVolumeCount",
        "MaxGCEPDVolumeCount",
        "NoDiskConflict",
        "NoVolumeZoneConflict",
        "PodFitsHostPorts",
        "PodFitsPorts",
        "PodFitsResources",
        "PodToleratesNodeTaints",
    }
)
_OLDER_PREDICATES: Final = frozenset(
    {
        "CheckNodeCondition",
        "CheckNodeDiskPressure",
        "CheckNodeMemoryPressure",
        "CheckNodePIDPressure",
        "NoVolumeNodeConflict",
        "PodToleratesNodeNoExecuteTaints",
    }
)
_DEFAULT_PRIORITIES: Final = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}
_PRIORITIES: Final = frozenset(
    {
        *_DEFAULT_PRIORITIES,
        "EqualPriority",
        "MostRequestedPriority",
        "NodePreferAvoidPodsPriority",
        "ServiceSpreadingPriority",
    }
)
_OLDER_PRIORITIES: Final = frozenset({"ResourceLimitsPriority"})
_BROKEN_IN_1_22: Final = frozenset({"LeastRequestedPriority", "MostRequestedPriority"})
# It writes its configuration into the log at that level, and has no form for the arguments of these two.
_AT_V2: Final = "1.22 does not start with it at -v 2 or more, unless a --config of v1beta1 stands beside the Policy"
_OVERRIDING: Final = "NodePreferAvoidPodsPriority"
_MISPLACED: Final = "percentageOfNodesToScore"


def check_version(value: Values) -> Iterator[Finding]:
    """Judge `apiVersion`, and say that the kind is gone."""
    version = value.get("apiVersion")
    if version not in API_VERSIONS:
        yield fault("apiVersion", f"must be {' or '.join(API_VERSIONS)} (the second from 1.17), got {shown(version)}")
    yield note("kind", "a Policy is read by kube-scheduler up to 1.22; 1.23 removed it (--policy-config-file is gone).")


def check_keys(value: Values) -> Iterator[Finding]:
    """Judge all keys outside `extenders`."""
    for key in value:
        if key == _MISPLACED:
            yield fault(key, f"has no place in a Policy: give it in the --config file beside it. {_STRICT}")
        elif key.lower() == "extenderconfigs":
            yield fault(key, f"read by some 1.7 builds only (kubernetes#52391); all others read extenders. {_STRICT}")
        elif key not in _KEYS:
            yield fault(key, f"unknown key. {_STRICT}{nearest(key, _KEYS)}")
    for part, known in (("predicates", _PREDICATE_KEYS), ("priorities", _PRIORITY_KEYS)):
        for index, item in enumerate(mappings(value, part)):
            for key in item:
                if key not in known:
                    yield fault(f"{part}[{index}].{key}", f"unknown key. {_STRICT}{nearest(str(key), known)}")


def check_sampling(value: Values) -> Iterator[Finding]:
    """Say where sampling is set, since a Policy cannot."""
    if _MISPLACED not in value:
        yield note(
            _MISPLACED,
            "cannot be set in a Policy. From 1.12 a search stops at 420 fitting nodes of 1,000 and 500 of 5,000; with "
            "--config giving 100 beside the Policy all are offered (200 nodes, 100 pods: 13 nodes used instead of 47).",
        )


def check_predicates(value: Values) -> Iterator[Finding]:
    """Judge `predicates`: absent, empty and incomplete lists mean different things in different releases."""
    listed = value.get("predicates")
    if listed is None:
        yield note("predicates", "left out: from 1.10 the defaults, before that none at all, not even resources.")
        return
    names = {str(item.get("name")) for item in mappings(value, "predicates")}
    yield from _names("predicates", value, _PREDICATES_OF_1_22 | _OLDER_PREDICATES)
    yield from _gone("predicates", names & _OLDER_PREDICATES)
    if not names & {"GeneralPredicates", "PodFitsResources"}:
        yield note("predicates", "without GeneralPredicates nothing counts CPU, memory and GPUs before us.")
    if "CheckVolumeBinding" not in names:
        yield note(
            "predicates",
            "without CheckVolumeBinding volumes of class WaitForFirstConsumer are never bound: add it from 1.9 on "
            "(1.8 and older do not know it and do not start).",
        )


def check_priorities(value: Values) -> Iterator[Finding]:
    """Judge `priorities`, with those 1.22 does not start with."""
    if value.get("priorities") is None:
        yield note(
            "priorities",
            f"left out: from 1.10 the defaults, before that none. The defaults hold LeastRequestedPriority: {_AT_V2}. "
            "Name priorities, or give an empty list.",
        )
        return
    names = {str(item.get("name")) for item in mappings(value, "priorities")}
    yield from _names("priorities", value, _PRIORITIES | _OLDER_PRIORITIES)
    yield from _gone("priorities", names & _OLDER_PRIORITIES)
    for index, item in enumerate(mappings(value, "priorities")):
        weight = item.get("weight")
        if not is_integer(weight) or int(str(weight)) <= 0:
            yield fault(f"priorities[{index}].weight", f"must be an integer above 0, got {shown(weight)}")
    for name in sorted(names & _BROKEN_IN_1_22):
        yield note("priorities", f"{name}: {_AT_V2}.")
    if _OVERRIDING in names:
        yield note("priorities", f"{_OVERRIDING} outvotes us, on nodes that carry its annotation only.")


def _names(key: str, value: Values, known: frozenset[str]) -> Iterator[Finding]:
    """Yield a fault for each name that no release knows; an entry with an `argument` has a name of its own."""
    if not isinstance(value.get(key), list):
        yield fault(key, "must be a list")
    for index, item in enumerate(mappings(value, key)):
        name = str(item.get("name"))
        if name not in known and not item.get("argument"):
            yield fault(f"{key}[{index}].name", f"{name} is known to no kube-scheduler{nearest(name, known)}")


def _gone(key: str, names: frozenset[str] | set[str]) -> Iterator[Finding]:
    for name in sorted(names):
        yield note(key, f"{name}: newer releases, 1.22 among them, do not know it and do not start.")


def check_eras(value: Values) -> Iterator[Finding]:
    """Say from which release the extender's younger keys are read."""
    if mappings(value, "extenders"):
        yield note(
            "extenders",
            "older releases leave younger keys out in silence: nodeCacheCapable is read from 1.6, bindVerb from 1.7, "
            "managedResources from 1.10, preemptVerb and ignorable from 1.11. 1.7 and 1.8 want a positive weight on "
            "every extender.",
        )


def in_tree_points(value: Values) -> int:
    """Return the most points the priorities can add (1.17+); the overriding one is left out and told apart."""
    if value.get("priorities") is None:
        return 100 * sum(_DEFAULT_PRIORITIES.values())
    weights = [item.get("weight") for item in mappings(value, "priorities") if item.get("name") != _OVERRIDING]
    return 100 * sum(weight for weight in weights if isinstance(weight, int))


POLICY_RULES: Final = (check_version, check_keys, check_sampling, check_predicates, check_priorities, check_eras)
