"""Lines about objects, each once per object."""

from __future__ import annotations

from extender.kube.once import Once
from extender.kube.raw import RawMeta


def test_a_line_is_said_once_per_object() -> None:
    said: list[str] = []
    once = Once(said.append)
    for uid in ("u1", "u1", "u2", None, None):
        once.about(RawMeta(uid=uid))("pod ml/a: odd")
    once.about(None)("pod ml/a: odd")
    once.about(RawMeta(uid="u1"))("pod ml/a: odder")
    assert said == [*["pod ml/a: odd"] * 3, "pod ml/a: odder"], "u1, u2 and who has no UID"


def test_what_is_remembered_is_bounded() -> None:
    said: list[str] = []
    once = Once(said.append)
    say = once.about(RawMeta(uid="u"))
    for at in range(20_000):
        say(f"{at}")
    say("19999")
    assert len(said) == 20_000
    say("0")
    assert len(said) == 20_001, "long ago"
    say("x" * 10**7)
    say("x" * 10**7)
    assert len(said) == 20_003, "too long to be remembered"
