"""From the configuration to the policy it names."""

from __future__ import annotations

from extender.config import Config
from extender.packing.framework import Policy
from extender.packing.policies import REGISTRY
from extender.packing.policies.hole_aware import HoleAware, Weights
from extender.packing.policies.planned import Planned


def make_policy(config: Config) -> Policy:
    """Return the policy of ``scoring.policy``; only hole-aware, and planned built on it, have settings."""
    if config.scoring.policy not in (HoleAware().name, Planned().name):
        return REGISTRY[config.scoring.policy]()
    given = config.scoring.parameters
    weights = Weights(
        fragmentation=given.fragmentation_weight,
        guard=given.guard_weight,
        large_node=given.large_node_weight,
        cpu_ratio=given.cpu_ratio_weight,
        ladder=given.ladder_weight,
        preference=given.preference_weight,
        type_rank=given.type_rank_weight,
    )
    base = HoleAware(weights=weights, type_rank=config.gpus.type_rank)
    if config.scoring.policy == base.name:
        return base
    return Planned(base=base, quota=given.quota_weight, cpu_quota=given.cpu_quota_weight)
