"""The share of a node that is in use once a pod runs there: what LeastAllocated and MostAllocated are made of.

Source: kube-scheduler pkg/scheduler/framework/plugins/noderesources/{least_allocated,most_allocated}.go. Whole percent
per resource, rounded down; a resource the node does not offer is skipped; the mean over the rest is rounded down again.
Not copied: the 100 milli-CPU and 200 MB that the stock plugin counts for containers that ask for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from extender.packing.framework import Rows, Utilities
from extender.packing.policies import columns
from extender.packing.snapshot import Snapshot
from extender.packing.types import PodInfo

PERCENT = 100.0


def mean_percent(snapshot: Snapshot, pod: PodInfo, rows: Rows, resources: Iterable[str], *, free: bool) -> Utilities:
    """Return the mean percentage of the resources that is free (or used) once the pod runs; 0 where none is offered."""
    total, counted = np.zeros(len(rows)), np.zeros(len(rows))
    for resource in resources:
        offered = columns.allocatable(snapshot, resource, rows)
        left = np.maximum(columns.free(snapshot, resource, rows) - pod.requests.get(resource, 0), 0)
        part = left if free else offered - left
        total += np.floor(part * PERCENT / np.maximum(offered, 1)) * (offered > 0)
        counted += offered > 0
    return np.floor(total / np.maximum(counted, 1))
