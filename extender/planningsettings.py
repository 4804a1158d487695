"""The `planning` section of the configuration: what is solved beside the requests, how often, for how long."""

from __future__ import annotations

from pydantic import Field

from extender.settings import Section


class PlanningSettings(Section):
    """Quotas and joint plans, solved in a child process. Scores use them with the policy `planned`."""

    enabled: bool = Field(
        default=True,
        description="Switch: off, no child process is started and `planned` scores as `hole-aware`.",
    )
    quota_period_seconds: float = Field(
        0.2,
        ge=0.05,
        le=3600,
        description="Least seconds between two solves of the quotas, which take some 10 ms. 0.2: at kube-scheduler's "
        "pace that is some ten placements; a quiet cluster is not solved again.",
    )
    period_seconds: float = Field(
        1.0,
        ge=0.1,
        le=3600,
        description="Least seconds between two plans of the queue. 1: a pod seldom waits for less; a quiet cluster is "
        "not planned again.",
    )
    queue_limit: int = Field(
        2000,
        ge=1,
        le=20000,
        description="Waiting pods that are planned together, the first of the queue first. 2000: planned in 0.1 to "
        "1 s; what comes later in the queue is seen once those have gone.",
    )
    solver_seconds: float = Field(
        1.0,
        ge=0.01,
        le=60,
        description="Deterministic seconds of the solver for the queue, about as long as real ones on a free core. 1: "
        "most queues are proved in less, and more would age the plan.",
    )
    start_seconds: float = Field(
        20.0,
        ge=1,
        le=600,
        description="Seconds after which a child that is not ready to solve is killed; another is started later. Until "
        "then planning waits, and nothing else does. 20: a start takes half a second, on a busy machine a few.",
    )
    deadline_seconds: float = Field(
        10.0,
        ge=0.1,
        le=600,
        description="Seconds after which the child is killed and started anew, counted from when it is ready. Quotas "
        "that fall due while a queue is planned wait so long at most, and for the start of the next child if this one "
        "is killed; then they are solved first. After a question that took too long the next is half as large. 10: "
        "several times what the largest clusters take.",
    )
    stale_seconds: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Seconds after which a plan of a state that the cluster has left is taken back, counted from when "
        "it left it; scores are then those of `hole-aware`. 60: by then most of what it counts on has changed.",
    )
