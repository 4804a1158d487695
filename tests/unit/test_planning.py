"""When the planner solves, what it publishes, and that trouble of the solver costs no more than the plan."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from extender.cache import Cache
from extender.packing.forecast import Answer, Question, QuotaAnswer, QuotaQuestion
from extender.packing.guidance import Guidance
from extender.packing.solvers import solve
from extender.planmetrics import PlanMetrics
from extender.planning import Planning, _Pace
from extender.planningsettings import PlanningSettings
from extender.solverprocess import DeadlineError, SolverError
from tests.builders import GPU, H100, node, pod


@dataclass
class FakeSolver:
    """Solves in the process; fails, or lets something happen while the queue is planned, when told to."""

    asked: list[str] = field(default_factory=list)
    trouble: str = ""
    late_queue: bool = False
    meanwhile: list[Callable[[], None]] = field(default_factory=list)
    closed: bool = False
    most_variables: int = 1_000_000
    sizes: list[int] = field(default_factory=list)
    start_seconds: float = 0.0
    without_optimum: bool = False

    def start(self) -> None:
        time.sleep(self.start_seconds)

    def solve(self, job: Question, deadline_seconds: float) -> Answer:
        assert deadline_seconds > 0
        is_quota = isinstance(job, QuotaQuestion)
        self.asked.append("quotas" if is_quota else "queue")
        while self.meanwhile and not is_quota:
            self.meanwhile.pop()()
        if self.trouble or (self.late_queue and not is_quota):
            raise SolverError(self.trouble)
        if isinstance(job, QuotaQuestion):
            self.sizes.append(sum(int(problem.allowed.sum()) for problem in job.problems.values()))
            if self.sizes[-1] > self.most_variables:
                raise DeadlineError("no result within 10 s")
            if self.without_optimum:
                return QuotaAnswer({})
        return solve(job)

    @property
    def quotas(self) -> int:
        return self.asked.count("quotas")

    @property
    def queues(self) -> int:
        return self.asked.count("queue")

    def close(self) -> None:
        self.closed = True


class Setup:
    """A planner over a cache, with a clock that stands until it is told to move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cache = Cache(tentative_seconds=10, clock=lambda: self.now)
        self.solver = FakeSolver()
        self.registry = CollectorRegistry()
        metrics = PlanMetrics(self.registry, lambda: self.now)
        self.follows = True
        self.planning = Planning(
            self.cache, self.solver, PlanningSettings(), metrics, lambda: self.now, lambda _: self.follows
        )

    def fill(self) -> None:
        nodes = [node("a").gpus(8, H100), node("b").gpus(8, H100), node("t").gpus(4, "Tesla-T4")]
        self.cache.relist([n.build() for n in nodes], [pod("r").gpus(2).cpu(8).on("a").build()])

    def turn(self, later: float = 0.0) -> Guidance | None:
        self.now += later
        self.planning.turn()
        return self.cache.snapshot.guidance

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"gpu_extender_{name}", labels) or 0.0


@pytest.fixture
def setup() -> Setup:
    """Return a planner over a known cluster."""
    made = Setup()
    made.fill()
    return made


def test_nothing_is_solved_before_the_cluster_is_known() -> None:
    setup = Setup()
    assert setup.turn() is None
    assert setup.solver.quotas == 0


def test_quotas_are_published_once_per_change_and_period(setup: Setup) -> None:
    guidance = setup.turn()
    assert guidance is not None
    assert GPU in guidance.quotas
    assert setup.count("quota_duration_seconds_count") == 1
    assert setup.count("plan_timestamp_seconds", what="quotas") == 100
    assert setup.turn(later=60) is guidance, "nothing has changed"
    setup.cache.update_pod(pod("s").gpus(1).cpu(4).on("b").build())
    assert setup.turn() is not guidance
    setup.cache.update_pod(pod("u").gpus(1).cpu(4).on("b").build())
    setup.turn(later=0.1)
    assert setup.solver.quotas == 2, "the period is not over"
    setup.turn(later=0.11)
    assert setup.solver.quotas == 3


def test_the_start_of_the_child_is_no_reason_to_rest(setup: Setup) -> None:
    setup.solver.start_seconds = 0.3
    setup.turn()
    setup.cache.update_pod(pod("w").gpus(1).build())
    setup.turn(later=0.3)
    assert setup.solver.quotas == 2


def test_quotas_that_the_policy_would_not_look_at_are_not_solved(setup: Setup) -> None:
    setup.follows = False
    setup.cache.update_pod(pod("w").gpus(1).build())
    setup.turn()
    assert (setup.solver.quotas, setup.solver.queues) == (0, 1)
    setup.follows = True
    setup.turn()
    assert setup.solver.quotas == 1


def test_a_pod_that_starts_while_it_is_planned_is_not_told_where_to_go(setup: Setup) -> None:
    setup.cache.relist([node("five").gpus(5, H100).build(), node("four").gpus(4, H100).build()], [])
    for name, gpus in {"three": 3, "two-0": 2, "two-1": 2, "two-2": 2}.items():
        setup.cache.update_pod(pod(name).gpus(gpus).build())
    started = pod("three").gpus(3).on("five").build()
    setup.solver.meanwhile.append(lambda: setup.cache.update_pod(started))
    guidance = setup.turn()
    assert guidance is not None
    assert (len(guidance.nodes), started.uid in guidance.nodes) == (3, False)


def test_trouble_is_told_once_counted_and_tried_again_with_patience(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.solver.trouble = "no result within 10 s"
    for _ in range(3):
        guidance = setup.turn()
        assert guidance is not None
        assert guidance.quotas == {}
    assert setup.solver.quotas == 1
    for later in (2.1, 4.1, 8.1):
        setup.turn(later)
    assert setup.solver.quotas == 4
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "planning: no result within 10 s; scores go on without what it would have said"
    ]
    assert setup.count("plan_failures_total", why="solver") == 4
    setup.solver.trouble = ""
    guidance = setup.turn(later=60)
    assert guidance is not None
    assert GPU in guidance.quotas


def test_a_queue_that_takes_too_long_does_not_cost_the_quotas(setup: Setup) -> None:
    setup.cache.update_pod(pod("w").gpus(4).build())
    setup.solver.late_queue = True
    for _ in range(4):
        guidance = setup.turn(later=1.1)
        assert guidance is not None
        assert GPU in guidance.quotas
        setup.cache.update_pod(pod("s").gpus(1).cpu(4).created(setup.now).build())
    assert (setup.solver.quotas, setup.solver.queues) == (4, 2)


@pytest.mark.parametrize("late", [False, True])
def test_quotas_wait_for_one_queue_at_most(setup: Setup, late: bool) -> None:
    def takes_the_whole_deadline() -> None:
        setup.now += PlanningSettings().deadline_seconds
        setup.cache.update_pod(pod("s").gpus(1).cpu(4).created(setup.now).build())

    setup.cache.update_pod(pod("w").gpus(4).build())
    setup.solver.late_queue = late
    for _ in range(2):
        setup.solver.meanwhile.append(takes_the_whole_deadline)
        setup.turn()
    assert setup.solver.asked[:3] == ["quotas", "queue", "quotas"], "at once, and before the next queue"


def test_a_plan_is_taken_back_once_the_cluster_has_long_left_its_state(setup: Setup) -> None:
    assert setup.turn() is not None
    setup.solver.trouble = "dead"
    assert setup.turn(later=3600) is not None, "the cluster is as it was: the plan is not old"
    for _ in range(7):
        setup.cache.update_pod(pod("s").gpus(1).cpu(4).on("b").created(setup.now).build())
        guidance = setup.turn(later=10)
        assert guidance is not None
        assert GPU in guidance.quotas, "a quiet hour does not count"
    guidance = setup.turn(later=1)
    assert guidance is not None
    assert (guidance.quotas, guidance.nodes) == ({}, {})
    assert setup.count("plans_retired_total") == 1


def test_after_one_that_took_too_long_the_next_question_is_half_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.planning.MOST_VARIABLES", 6)
    setup = Setup()
    setup.fill()
    for gpus in (1, 2, 4):
        setup.cache.update_pod(pod(f"w{gpus}").gpus(gpus).cpu(gpus).build())
    setup.solver.most_variables = 3
    for _ in range(5):
        setup.turn(later=60)
        setup.cache.update_pod(pod("w1").gpus(1).cpu(1).created(setup.now).build())
    assert setup.solver.sizes == [6, 3, 6, 3, 6], "and grows again after a quick answer"
    assert setup.count("plan_failures_total", why="solver") == 3


def test_a_question_that_took_long_in_vain_rests_for_twice_as_long() -> None:
    settings = PlanningSettings(deadline_seconds=10)
    pace = _Pace(0.2, settings, 8)
    for _ in range(5):
        pace.failed(100.0, 10.0, late=True)
    assert (pace.due(1, 119.9), pace.due(1, 120.0), pace.size) == (False, True, 1)
    pace.published(1, 120.0, 5.0, 0.0)
    assert pace.size == 1, "an answer that takes half the deadline leaves no room"
    for generation in range(2, 6):
        pace.published(generation, 130.0, 0.5, 0.0)
    assert pace.size == 8


def test_quotas_without_an_optimum_are_told_once_and_counted(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    setup.solver.without_optimum = True
    for uid in ("s", "u"):
        setup.cache.update_pod(pod(uid).gpus(1).on("b").build())
        guidance = setup.turn(later=10)
        assert guidance is not None
        assert not guidance.quotas
    assert setup.count("plan_failures_total", why="solver") == 2
    assert caplog.text.count("no optimum for the quotas of nvidia.com/gpu") == 1


def test_a_bug_ends_neither_the_thread_nor_the_plan(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    setup.solver.meanwhile.append(bug)
    setup.cache.update_pod(pod("w").gpus(4).build())
    setup.planning.start()
    try:
        for _ in range(300):
            if setup.count("plan_failures_total", why="bug"):
                break
            setup.planning._stop.wait(0.05)
        assert setup.count("plan_failures_total", why="bug") == 1
    finally:
        setup.planning.stop()
    assert setup.solver.closed
    assert "bug: planning failed" in caplog.text


def test_a_plan_that_gains_names_nodes_and_what_comes_of_it_is_counted(setup: Setup) -> None:
    # Best fit, the largest first, puts 3 into 4, 2 and 2 into 5, and has 1 and 1 left for the last 2.
    setup.cache.relist([node("five").gpus(5, H100).build(), node("four").gpus(4, H100).build()], [])
    sizes = {"three": 3, "two-0": 2, "two-1": 2, "two-2": 2}
    for name, gpus in sizes.items():
        setup.cache.update_pod(pod(name).gpus(gpus).build())
    setup.cache.update_pod(pod("gated").gpus(2).gated().build())
    guidance = setup.turn()
    assert guidance is not None
    assert sorted(guidance.nodes.values()) == ["five", "five", "four", "four"]
    assert setup.count("plan_status", status="OPTIMAL") == 1
    assert (setup.count("plan_gpus"), setup.count("plan_bound_gpus"), setup.count("plan_gap_ratio")) == (9, 9, 0)
    assert setup.count("plan_nodes") == 4
    for name, gpus in sizes.items():
        where = "four" if name == "two-2" else "five"
        setup.cache.update_pod(pod(name).gpus(gpus).on(where).build())
    setup.turn(later=5)
    followed, overruled = setup.count("plan_followed_total"), setup.count("plan_overruled_total")
    assert (followed + overruled, overruled >= 1) == (4, True)
    assert setup.count("plan_status", status="OPTIMAL") == 0, "nobody waits"


def test_a_plan_that_gains_nothing_leaves_the_nodes_to_scoring(setup: Setup) -> None:
    setup.cache.update_pod(pod("w").gpus(4).build())
    guidance = setup.turn()
    assert guidance is not None
    assert guidance.nodes == {}
    assert (setup.count("plan_gpus"), setup.count("plan_nodes")) == (4, 0)
