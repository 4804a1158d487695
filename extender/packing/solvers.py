"""All that is solved ahead of the requests, in one call. The only door to the solver libraries for who serves."""

from __future__ import annotations

from extender.packing import quotas
from extender.packing.forecast import Answer, Question
from extender.packing.greedy import greedy
from extender.packing.planner import Limits, plan


def solve(question: Question) -> Answer:
    """Solve what is asked; an LP that cannot be solved is left out of the answer."""
    found = {resource: quotas.solve(problem) for resource, problem in question.quotas.items()}
    wanted = {resource: amounts for resource, amounts in found.items() if amounts is not None}
    if question.queue is None:
        return Answer(wanted)
    joint = plan(question.queue, Limits(question.deterministic_seconds), question.previous)
    plain = zip(question.queue.levels, question.queue.value(greedy(question.queue)), strict=True)
    placed = [value for level, value in plain if level.counts_pods]
    return Answer(wanted, joint, [each.value for each in joint.reached if each.level.counts_pods] > placed)
