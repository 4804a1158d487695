"""One verb from bytes to bytes: what is booked, handed on and counted, and that no answer shows any of it."""

from __future__ import annotations

import gc
import json
import logging
import threading
import time

import pytest

from extender.cache import Cache
from extender.kube.gpurules import GpuRules
from extender.metrics import Metrics
from extender.packing.policies.best_fit import BestFit
from extender.service import EmbeddedBinder, VerbService
from extender.verbs import VerbSettings
from extender.wire import Reader
from tests.builders import node, pod

H100 = "NVIDIA-H100-80GB-HBM3"
NODES = [node("a").gpus(8, H100), node("bb").gpus(4, H100), node("ccc").gpus(2, "Tesla-T4"), node("d").gpus(8, H100)]
HELD = [pod("h1").gpus(5).on("a"), pod("h2").gpus(8).on("d")]


class Setup:
    """A service over a small cluster."""

    def __init__(self, policy=None, *, bind=False, nodes=NODES, refusal_wait_seconds=0.0):
        self.cache = Cache(tentative_seconds=60)
        self.cache.relist([n.build() for n in nodes], [p.build() for p in HELD])
        self.metrics = Metrics()
        binder = EmbeddedBinder(self.cache) if bind else None
        settings = VerbSettings(policy or BestFit())
        reader = Reader(GpuRules.default(), lambda _: None)
        self.service = VerbService(
            self.cache, reader, settings, self.metrics, binder, refusal_wait_seconds=refusal_wait_seconds
        )

    def ask(self, verb, value, *, finish=True):
        raw = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        reply = self.service.answer(verb, raw)
        if finish:
            reply.finish()
        return reply.status, json.loads(reply.body)

    def count(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"gpu_extender_{name}", labels) or 0.0


def body(name="p", gpus=1, names=("a", "bb", "ccc", "d"), **meta):
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"containers": [{"resources": {"limits": limits}}]}
    return {
        "Pod": {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}", **meta}, "spec": spec},
        "NodeNames": list(names),
    }


def test_prioritize_answers_the_same_with_and_without_the_hand_off():
    with_filter, without = Setup(), Setup()
    for number in range(6):
        kept = with_filter.ask("filter", body(f"p{number}"))[1]["NodeNames"]
        question = body(f"p{number}", names=kept)
        assert with_filter.ask("prioritize", question) == without.ask("prioritize", question)
        assert with_filter.ask("prioritize", question) == without.ask("prioritize", question), "and asked again"
    assert (with_filter.count("handoffs_total", result="hit"), without.count("handoffs_total", result="hit")) == (12, 0)


def test_names_that_differ_in_blanks_alone_are_told_apart():
    nodes = [node(name).gpus(gpus, H100) for name, gpus in (("a b", 8), ("ab", 8), ("abcdefgh", 8), ("full", 0))]
    setup = Setup(nodes=nodes)
    assert setup.ask("filter", body(names=("a b", "abcdefgh", "full")))[1]["NodeNames"] == ["a b", "abcdefgh"]
    other = setup.ask("prioritize", body(names=("ab", "abcdefgh")))[1]
    assert [entry["Host"] for entry in other] == ["ab", "abcdefgh"]
    assert setup.count("handoffs_total", result="hit") == 0


def test_one_uid_for_two_pods_costs_the_prepared_answer():
    setup, fresh = Setup(), Setup()
    setup.ask("filter", body(gpus=1, names=("a", "bb")))
    question = body(gpus=4, names=("a", "bb"))
    assert setup.ask("prioritize", question) == fresh.ask("prioritize", question)


def test_a_prepared_answer_is_dropped_when_anything_has_changed():
    setup, fresh = Setup(), Setup()
    kept = setup.ask("filter", body("first"))[1]["NodeNames"]
    for each in (setup, fresh):
        each.cache.update_pod(pod("new").gpus(2).on("ccc").build())
    got = setup.ask("prioritize", body("first", names=kept))[1]
    assert got == fresh.ask("prioritize", body("first", names=kept))[1]
    assert {entry["Host"]: entry["Score"] for entry in got}["ccc"] == 0


def test_a_prepared_answer_sees_what_was_booked_meanwhile():
    setup, fresh = Setup(), Setup()
    kept = setup.ask("filter", body("first", 2))[1]["NodeNames"]
    for each in (setup, fresh):
        each.ask("prioritize", body("second", 2, names=("ccc", "bb")))
    assert setup.ask("prioritize", body("first", 2, names=kept)) == fresh.ask(
        "prioritize", body("first", 2, names=kept)
    )


def test_a_node_that_comes_or_goes_between_the_two_calls_is_seen():
    setup = Setup()
    kept = setup.ask("filter", body())[1]["NodeNames"]
    setup.cache.remove_node("ccc")
    scores = {entry["Host"]: entry["Score"] for entry in setup.ask("prioritize", body(names=kept))[1]}
    assert scores["ccc"] == 0


def test_a_bind_may_come_before_filter_has_finished_its_books():
    setup = Setup(bind=True)
    assert setup.ask("filter", body("fresh"), finish=False)[0] == 200
    question = {"PodName": "fresh", "PodNamespace": "ml", "PodUID": "u-fresh", "Node": "ccc"}
    assert setup.ask("bind", question) == (200, {"Error": ""})


def test_booking_follows_the_answer_and_moves_scores_alone():
    setup = Setup()
    assert setup.ask("prioritize", body("one", 2, names=("ccc", "bb")), finish=False)[1][0]["Score"] == 10
    assert setup.cache.snapshot.booked is None
    setup.ask("prioritize", body("one", 2, names=("ccc", "bb")))
    assert setup.cache.snapshot.booked is not None
    assert setup.ask("filter", body("two", 2, names=("ccc", "bb")))[1]["NodeNames"] == ["ccc", "bb"]
    assert setup.ask("prioritize", body("two", 2, names=("ccc", "bb")))[1][1] == {"Host": "bb", "Score": 10}


def test_filter_books_the_only_node_left():
    setup = Setup()
    setup.ask("filter", body("one", 2, names=("ccc", "d")))
    assert [line.node for line in setup.cache.view.ledger.lines.values()] == ["ccc"]


def test_bind_ends_the_booking_and_knows_a_pod_by_its_filter_call():
    setup = Setup(bind=True)
    setup.ask("filter", body("one", 2, names=("ccc", "bb")))
    setup.ask("prioritize", body("one", 2, names=("ccc", "bb")))
    question = {"PodName": "one", "PodNamespace": "ml", "PodUID": "u-one", "Node": "ccc"}
    assert setup.ask("bind", question) == (200, {"Error": ""})
    assert setup.cache.snapshot.booked is None
    assert setup.ask("filter", body("two", 1, names=("ccc",)))[1]["NodeNames"] == []
    status, value = setup.ask("bind", {**question, "Node": "bb"})
    assert (status, "already assigned to ccc" in value["Error"]) == (200, True)
    assert setup.count("error_answers_total", verb="bind") == 1


class Broken:
    """A policy with a bug."""

    name = "broken"

    def score(self, snapshot, pod, rows):
        raise ZeroDivisionError("oops")


def test_a_bug_of_ours_is_a_500_one_traceback_and_one_count(caplog):
    setup = Setup(Broken())
    status, value = setup.ask("prioritize", body())
    assert (status, value) == (500, {"Error": "internal error, see the log"})
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert setup.count("internal_errors_total", verb="prioritize") == 1
    assert setup.count("requests_total", verb="prioritize", code="500") == 1


def test_a_bug_while_preparing_costs_no_answer(caplog):
    setup = Setup(Broken())
    assert setup.ask("filter", body())[0] == 200
    assert setup.count("internal_errors_total", verb="filter") == 1
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("verb", "value", "status"),
    [("filter", b"{", 400), ("filter", {}, 200), ("prioritize", {}, 400), ("preempt", {}, 400), ("bind", {}, 200)],
)
def test_refusals_are_logged_in_one_line_and_counted(caplog, verb, value, status):
    setup = Setup(bind=True)
    got, answer = setup.ask(verb, value)
    assert (got, bool(answer["Error"])) == (status, True)
    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.WARNING, None)]
    assert setup.count("requests_total", verb=verb, code=str(status)) == 1


def test_what_filter_did_is_counted():
    setup = Setup()
    setup.ask(
        "filter", body(gpus=4, annotations={"gpu-extender.io/types": "H100"}, names=("a", "bb", "ccc", "d", "new"))
    )
    reasons = ("resources", "gpu_model", "unknown_node", "taint")
    assert [setup.count("rejections_total", reason=reason) for reason in reasons] == [2, 1, 1, 0]
    assert setup.count("nodes_considered_sum", verb="filter") == 5
    setup.ask("filter", body(names=("new",)))
    assert setup.count("error_answers_total", verb="filter") == 1


def test_many_calls_leave_nothing_behind():
    setup = Setup()

    def pods(first, last):
        for number in range(first, last):
            kept = setup.ask("filter", body(f"p{number}"))[1]["NodeNames"]
            setup.ask("prioritize", body(f"p{number}", names=kept))
            setup.cache.forget(f"u-p{number}")
        gc.collect()
        return len(gc.get_objects())

    warm = pods(0, 300)  # the memories are bounded, and full by now
    assert pods(300, 900) < warm + 100


def test_pods_without_gpus_pass_filter_untouched_and_unbooked():
    setup = Setup()
    assert setup.ask("filter", body("web", 0, names=("new",)))[1]["NodeNames"] == ["new"]
    assert setup.cache.view.ledger.lines == {}


def test_a_held_node_is_a_reason_and_an_error_once_nothing_else_is_left():
    setup = Setup()
    setup.cache.update_pod(pod("waits").gpus(4).refused().build())  # only "bb" has four free
    status, answer = setup.ask("filter", body("small"))
    assert (status, answer["NodeNames"]) == (200, ["a", "ccc"])
    assert answer["FailedNodes"]["bb"] == "node(s) held for a larger pod that waits"
    assert "bb" not in answer["FailedAndUnresolvableNodes"]
    assert setup.count("rejections_total", reason="held") == 1
    only_held = setup.ask("filter", body("small", names=["bb", "d"]))[1]
    assert only_held["Error"] == "no candidate is left, and 1 of 2 are held for a larger pod that waits"
    assert setup.ask("filter", body("waits", 4))[1]["NodeNames"] == ["bb"], "it is held for this pod"
    setup.cache.update_pod(pod("waits").gpus(4).on("bb").build())
    assert "held" not in str(setup.ask("filter", body("small", names=["bb", "d"]))[1])


def test_a_node_that_changes_while_it_is_asked_about_is_seen(monkeypatch):
    setup = Setup(refusal_wait_seconds=30)
    asked = threading.Event()
    wait = setup.cache.wait

    def waited(view, seconds):
        asked.set()
        return wait(view, seconds)

    monkeypatch.setattr(setup.cache, "wait", waited)

    def label():
        asked.wait()
        setup.cache.update_node(node("ccc").gpus(2, H100).build())

    labeller = threading.Thread(target=label)
    labeller.start()
    wish = {"annotations": {"gpu-extender.io/types": "H100"}}
    assert setup.ask("filter", body("p", names=("ccc",), **wish))[1]["NodeNames"] == ["ccc"]
    labeller.join()
    assert setup.count("refusal_waits_total", result="changed") == 1


def test_a_hold_runs_out_by_itself():
    setup = Setup()
    setup.cache.update_pod(pod("waits").gpus(4).refused().build())
    setup.cache.expire(time.monotonic() + 16)
    assert "bb" in setup.ask("filter", body("small"))[1]["NodeNames"]
