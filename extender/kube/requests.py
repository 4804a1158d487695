"""Quantities of API objects as integers, and the effective request of a pod (KEP-753, KEP-2837).

    request = max( sum(containers) + sum(sidecars),
                   each init container + the sidecars started before it )      per resource
              then cpu, memory and hugepages replaced by `spec.resources`, if given there
              then + overhead

The same rule as component-helpers/resource `PodRequests`; kube-scheduler charges it for the pod's whole life. Not
looked at: `status.containerStatuses[].resources` of a pod that is being resized in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from extender.kube.raw import RawContainer, RawPodSpec, RawResources
from extender.packing.resources import CPU, MEMORY, PODS, QuantityError, capped_sum, is_whole, parse_quantity, scale_of

Say = Callable[[str], None]
"""Takes one line about the object at hand, without its name."""

_AS_NONE: Final = "; counted as 0"
_HUGEPAGES: Final = "hugepages-"
_ALWAYS: Final = "Always"
# Longer texts are no amounts and no names, and not worth remembering.
_USUAL_LENGTH: Final = 32
_USUAL_NAME: Final = 320


def amounts(raw: Mapping[str, Any] | None, field: str, say: Say) -> dict[str, int]:
    """Read quantities by resource name in the units of `extender.packing.resources`.

    What cannot be read, and what is below zero, is said with its field and counted as 0; so is a part of a unit that
    comes in whole ones (any with a domain in its name), which is counted as one.
    """
    found = {}
    for name, value in raw.items() if raw else ():
        short = isinstance(value, str) and len(value) <= _USUAL_LENGTH and len(name) <= _USUAL_NAME
        found[name], remark = _usual(name, value) if short else _judged(name, value)
        if remark:
            say(f"{field}[{name:.80}]: {remark}")
    return found


def _judged(name: str, value: object) -> tuple[int, str]:
    """Return an amount and what has to be said about it, "" for nothing."""
    try:
        amount = parse_quantity(value, scale=scale_of(name))
        whole = "/" not in name or is_whole(value)
    except QuantityError as error:
        return 0, f"{error}{_AS_NONE}"
    if amount < 0:
        return 0, f"{value!r:.40} is negative{_AS_NONE}"
    # The API server takes no part: an extended resource is handed out in whole units (ValidateResourceQuantityValue).
    return amount, "" if whole else f"{value!r:.40} is no whole number; counted as {amount}"


@lru_cache(maxsize=4096)  # the pods of a cluster ask for few different amounts
def _usual(name: str, value: str) -> tuple[int, str]:
    return _judged(name, value)


def effective_requests(spec: RawPodSpec, say: Say) -> dict[str, int]:
    """Return what the pod as a whole asks for, zeros left out; `pods` is not in it."""
    total: dict[str, int] = {}
    for at, container in enumerate(spec.containers or ()):
        _add(total, _asked(container, f"spec.containers[{at}]", say))
    if spec.init_containers:
        _raise(total, _init_peak(spec.init_containers, total, say))
    if spec.resources is not None:
        total |= _pod_level(spec.resources, total, say)
    _add(total, amounts(spec.overhead, "spec.overhead", say))
    return {name: amount for name, amount in total.items() if amount and name != PODS}


def _asked(container: RawContainer, field: str, say: Say) -> dict[str, int]:
    """Return a container's requests; what it only limits it requests as well (SetDefaults_Pod)."""
    raw = container.resources
    if raw is None:
        return {}
    asked = amounts(raw.requests, f"{field}.resources.requests", say)
    if raw.limits:
        rest = {name: value for name, value in raw.limits.items() if name not in asked}
        asked |= amounts(rest, f"{field}.resources.limits", say)
    return asked


def unread_amount(spec: RawPodSpec, of: Callable[[str], bool]) -> str:
    """Return the first amount of such a resource that the containers ask for and that counts as 0 for what it is.

    As `field[resource]: what is wrong`; "" when there is none.
    """
    named = (("containers", spec.containers or ()), ("initContainers", spec.init_containers or ()))
    fields = ((f"spec.{name}[{at}]", one.resources) for name, some in named for at, one in enumerate(some))
    for field, raw in fields:
        requests = (raw.requests if raw else None) or {}
        limits = {name: value for name, value in ((raw.limits if raw else None) or {}).items() if name not in requests}
        for part, given in (("requests", requests), ("limits", limits)):
            for name, value in given.items():
                amount, remark = _judged(name, value)
                if remark and not amount and of(name):
                    return f"{field}.resources.{part}[{name:.80}]: {remark.removesuffix(_AS_NONE)}"
    return ""


def _init_peak(containers: list[RawContainer], total: dict[str, int], say: Say) -> dict[str, int]:
    """Add the sidecars to `total` and return the most that is held while the init containers run."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for at, container in enumerate(containers):
        asked = _asked(container, f"spec.initContainers[{at}]", say)
        if container.restart_policy == _ALWAYS:
            _add(total, asked)
            _add(sidecars, asked)
            _raise(peak, sidecars)
        else:
            _add(asked, sidecars)
            _raise(peak, asked)
    return peak


def _pod_level(raw: RawResources, total: Mapping[str, int], say: Say) -> dict[str, int]:
    """Return what `spec.resources` sets for the whole pod: cpu, memory and hugepages, nothing else (KEP-2837).

    A limit without a request counts where the containers name none (defaults.go defaultPodRequests).
    """
    level = amounts(raw.requests, "spec.resources.requests", say)
    for name, amount in amounts(raw.limits, "spec.resources.limits", say).items():
        if name not in level and (name not in total or name.startswith(_HUGEPAGES)):
            level[name] = amount
    return {n: amount for n, amount in level.items() if n in (CPU, MEMORY) or n.startswith(_HUGEPAGES)}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = capped_sum(total.get(name, 0), amount)


def _raise(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount
