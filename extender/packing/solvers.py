"""All that is solved ahead of the requests, behind one call: the only door to the solver libraries for who serves."""

from __future__ import annotations

from extender.packing import quotas
from extender.packing.forecast import Answer, Question, QueueAnswer, QueueQuestion, QuotaAnswer, QuotaQuestion
from extender.packing.greedy import greedy
from extender.packing.planner import Limits, plan


def solve(question: Question) -> Answer:
    """Answer a question."""
    match question:
        case QuotaQuestion():
            return solve_quotas(question)
        case QueueQuestion():
            return _queue(question)


def solve_quotas(question: QuotaQuestion) -> QuotaAnswer:
    """Solve the LP of every resource; what cannot be solved is left out of the answer."""
    found = {resource: quotas.solve(problem) for resource, problem in question.problems.items()}
    return QuotaAnswer({resource: wanted for resource, wanted in found.items() if wanted is not None})


def _queue(question: QueueQuestion) -> QueueAnswer:
    problem = question.problem
    joint = plan(problem, Limits(question.deterministic_seconds), question.previous)
    plain = zip(problem.levels, problem.value(greedy(problem)), strict=True)
    by_best_fit = [value for level, value in plain if level.counts_pods]
    return QueueAnswer(joint, [each.value for each in joint.reached if each.level.counts_pods] > by_best_fit)
