"""The reflector by single turns, against an API that says what the test wants."""

from __future__ import annotations

import json
import logging
from collections import Counter
from contextlib import contextmanager

import pytest

from extender.changes import Change, NodeGone, NodeSeen, NodesListed, PodGone, PodSeen, PodsListed
from extender.errors import ApiError, UnreachableError
from extender.kube.gpurules import GpuRules
from extender.kube.objects import node_kind, pod_kind
from extender.kube.reflector import Pace, Reflector, lines

PACE = Pace(page_size=2, watch_min=0.0, watch_max=0.0, backoff_first=1.0, backoff_max=8.0)


def node(name, version="7"):
    return {"metadata": {"name": name, "resourceVersion": version}, "status": {"allocatable": {"cpu": "4"}}}


def pod(name, version="7", **meta):
    return {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}", "resourceVersion": version, **meta}}


def page(*items, version="100", more=""):
    return json.dumps({"metadata": {"resourceVersion": version, "continue": more}, "items": items}).encode()


def line(kind, value):
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


class FakeApi:
    """Answers from a script; an exception in it is raised."""

    def __init__(self, *pages, watches=()):
        self.pages, self.watches, self.queries = list(pages), list(watches), []

    def get(self, path, query, *, doing):
        self.queries.append(dict(query))
        answer = self.pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextmanager
    def stream(self, path, query, *, silence_seconds, doing):
        self.queries.append(dict(query))
        script = self.watches.pop(0) if self.watches else []
        if isinstance(script, Exception):
            raise script
        yield FakeStream(script)


class FakeStream:
    def __init__(self, script):
        self.script = script

    def chunks(self):
        for part in self.script:
            if isinstance(part, Exception):
                raise part
            yield part

    def shutdown(self):
        """Do nothing."""


class Counts(Counter):
    """An observer."""

    def event(self, kind, event_type):
        self[event_type] += 1

    def listed(self, kind):
        self["listed"] += 1

    def restarted(self, kind, why):
        self[why] += 1

    def unreadable(self, kind, objects):
        self["unreadable"] += objects


class Setup:
    def __init__(self, *pages, watches=(), kind=node_kind, pace=PACE):
        self.api, self.counts = FakeApi(*pages, watches=watches), Counts()
        self.told: list[Change] | None = []
        self.warnings: list[str] = []
        of = kind(GpuRules.default(), self.warnings.append)
        self.reflector = Reflector(self.api, of, self.tell, pace, self.counts)

    def tell(self, change):
        assert self.told is not None, "a bug"
        self.told.append(change)

    def turn(self):
        return self.reflector.turn()

    def names(self):
        found: list[object] = []
        for change in self.told or ():
            match change:
                case NodesListed(nodes):
                    found.append([n.name for n in nodes])
                case NodeSeen(info):
                    found.append(f"+{info.name}")
                case NodeGone(name):
                    found.append(f"-{name}")
                case PodsListed(pods):
                    found.append([p.uid for p in pods])
                case PodSeen(info):
                    found.append(f"+{info.uid}")
                case PodGone(uid):
                    found.append(f"-{uid}")
                case _:
                    raise AssertionError(change)
        return found


def test_a_list_comes_in_pages_and_the_watch_goes_on_from_its_version():
    setup = Setup(page(node("a"), node("b"), version="100", more="2"), page(node("c"), version="101"))
    assert setup.turn() == 0.0
    assert setup.names() == [["a", "b", "c"]]
    first, second, watch = setup.api.queries
    assert (first, second) == ({"limit": "2"}, {"limit": "2", "continue": "2"})
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("101", "true")


def test_finished_pods_are_not_asked_for_and_a_deletion_needs_nothing_but_the_uid():
    events = [line("ADDED", pod("a", "101")), line("DELETED", {"metadata": {"uid": "u-a", "resourceVersion": "102"}})]
    setup = Setup(page(pod("b")), watches=[events], kind=pod_kind)
    setup.turn()
    assert setup.names() == [["u-b"], "+u-a", "-u-a"]
    assert {q["fieldSelector"] for q in setup.api.queries} == {"status.phase!=Succeeded,status.phase!=Failed"}


def test_the_version_moves_with_events_and_bookmarks_and_a_lost_connection_goes_on_from_there():
    lost = [line("ADDED", node("b", "105")), line("BOOKMARK", node("", "110")), UnreachableError("lost")]
    setup = Setup(page(node("a")), watches=[lost])
    assert 0.5 <= setup.turn() <= 1.0
    assert setup.reflector.version == "110"
    setup.turn()
    assert setup.api.queries[-1]["resourceVersion"] == "110"
    assert (setup.counts["listed"], setup.counts["lost"], setup.counts["BOOKMARK"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "watch",
    [
        ApiError("gone", 410, "Expired"),
        [line("ADDED", node("b", "105")), line("ERROR", {"code": 410, "message": "too old resource version"})],
        [b"<html>502 Bad Gateway</html>\n"],
    ],
)
def test_a_version_that_is_lost_leads_to_a_list_after_a_pause(watch):
    setup = Setup(page(node("a")), page(node("c"), version="200"), watches=[watch])
    assert setup.turn() > 0
    assert setup.reflector.version == ""
    assert setup.turn() == 0.0
    assert setup.names()[-1] == ["c"]
    assert (setup.counts["expired"], setup.counts["listed"]) == (1, 2)


def test_a_list_that_expires_half_way_tells_nothing_and_is_begun_anew():
    setup = Setup(page(node("a"), more="2"), ApiError("gone", 410), page(node("b")))
    setup.turn()
    assert setup.names() == []
    setup.turn()
    assert setup.names() == [["b"]]


def test_lines_may_be_cut_anywhere():
    whole = b"".join(line("ADDED", node(f"n{i}", str(200 + i))) for i in range(3))
    for size in (1, 7, 50, len(whole)):
        setup = Setup(page(), watches=[[whole[at : at + size] for at in range(0, len(whole), size)]])
        setup.turn()
        assert setup.names() == [[], "+n0", "+n1", "+n2"]


def test_half_a_line_at_the_end_is_no_event():
    assert list(lines(iter([b'{"a"', b":1}\n\n", b'{"b"']))) == [b'{"a":1}']


def test_what_cannot_be_read_is_named_and_left_out():
    bad = {"metadata": {"name": "bad", "resourceVersion": "8"}, "spec": {"unschedulable": "perhaps"}}
    watch = [line("MODIFIED", bad | {"metadata": {"name": "worse", "resourceVersion": "9"}}), line("ADDED", node("z"))]
    setup = Setup(page(node("a"), bad), watches=[watch])
    setup.turn()
    assert setup.names() == [["a"], "+z"]
    assert [w.partition(":")[0] for w in setup.warnings] == ["node bad", "node worse"]
    assert setup.counts["unreadable"] == 2


DEEP = '{"a":[' * 5000 + "]}" * 5000


def test_what_is_nested_too_deep_costs_nobody_else():
    def with_deep(text):
        return text.replace(b'"DEEP"', DEEP.encode())

    changes = [node("b") | {"new": "DEEP"}, node("c") | {"spec": {"taints": "DEEP"}}, node("z")]
    watch = [with_deep(line("MODIFIED", change)) for change in changes]
    setup = Setup(with_deep(page(node("a"), node("b") | {"spec": {"new": "DEEP"}})), watches=[watch])
    assert setup.turn() == 0.0
    assert setup.names() == [["a", "b"], "+b", "+z"], "no field that we read is nested so in b"
    assert [w.partition(":")[0] for w in setup.warnings] == ["node c"]
    assert setup.counts["unreadable"] == 1


def test_what_is_said_of_a_pod_is_said_once_however_often_it_changes():
    def misspelt(version, uid="u-a", value="H100"):
        return {"metadata": {"name": "a", "uid": uid, "resourceVersion": version,
                             "annotations": {"gpu-extender.io/type": value, "gpu-extender.io/min-cuda": value}},
                "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}  # fmt: skip

    events = [line("MODIFIED", misspelt(str(version))) for version in range(101, 110)]
    again = [line("MODIFIED", misspelt("110", value="A100")), line("ADDED", misspelt("111", uid="u-b"))]
    setup = Setup(page(misspelt("100")), watches=[[*events, *again]], kind=pod_kind)
    setup.turn()
    assert [("type is ignored" in w, "'A100'" in w) for w in setup.warnings] == [
        *[(True, False), (False, False)],  # of the first: the key, the value
        (False, True),  # another value
        *[(True, False), (False, False)],  # another pod of that name
    ]


def test_waiting_doubles_up_to_its_bound_and_begins_anew_after_an_event(caplog):
    caplog.set_level(logging.INFO)
    refused = ApiError("cannot list nodes: forbidden", 403)
    setup = Setup(*[refused] * 6, page(node("a")), watches=[[line("ADDED", node("b")), UnreachableError("lost")]])
    waits = [setup.turn() for _ in range(6)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, (1, 2, 4, 8, 8, 8), strict=True))
    assert "forbidden" in setup.reflector.trouble
    assert setup.turn() <= 1.0, "an event was heard, so it begins anew"
    assert setup.counts["refused"] == 6


def test_a_bug_does_not_end_the_loop(caplog):
    setup = Setup(page(node("a")))
    setup.told = None
    assert setup.turn() > 0
    assert setup.counts["bug"] == 1
    assert "AssertionError" in caplog.text


def test_a_watch_that_ends_at_once_is_a_failure():
    setup = Setup(page(node("a")), pace=Pace(watch_min=60, watch_max=60))
    assert setup.turn() > 0
    assert setup.counts["lost"] == 1


def test_a_stopped_reflector_asks_nobody():
    setup = Setup()
    setup.reflector.stop()
    setup.reflector.run()
    assert setup.api.queries == []
