"""All that is solved ahead of the requests, in one call. The only door to the solver libraries for who serves."""

from __future__ import annotations

from extender.packing import quotas
from extender.packing.forecast import Answer, Question


def solve(question: Question) -> Answer:
    """Solve what is asked; what cannot be solved is left out of the answer."""
    found = {resource: quotas.solve(problem) for resource, problem in question.quotas.items()}
    return Answer({resource: wanted for resource, wanted in found.items() if wanted is not None})
