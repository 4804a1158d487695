"""The WSGI in front of Flask."""

from __future__ import annotations

import io
from typing import Any

import pytest

from extender.server import Limits, VerbPaths
from extender.service import Reply


class Fixed:
    """Answers every verb with a body of some size."""

    offered = ("filter",)

    def __init__(self, size):
        self._size = size

    def answer(self, verb, body):
        return Reply(200, b"x" * self._size)


def nobody(*_):
    return []


@pytest.mark.parametrize(("asked", "answered", "big"), [(10, 10, 0), (2**22, 10, 1), (10, 2**22, 1)])
def test_memory_is_given_back_after_a_big_body_and_after_a_big_answer(asked, answered, big):
    noted: list[None] = []
    verbs: Any = Fixed(answered)
    paths = VerbPaths(verbs, nobody, Limits(2**24), lambda: noted.append(None))
    environ = {
        "PATH_INFO": "/scheduler/filter", "REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(asked), "wsgi.input": io.BytesIO(b"x" * asked),
    }  # fmt: skip
    start: Any = nobody
    [answer] = paths(environ, start)
    assert (len(answer), len(noted)) == (answered, big)
