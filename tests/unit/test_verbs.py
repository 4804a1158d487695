"""What each verb decides, on small clusters whose answers can be counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from extender.cache import Cache
from extender.packing.fit import UNKNOWN_NODE
from extender.packing.framework import MAX_SCORE
from extender.packing.policies.best_fit import BestFit
from extender.packing.types import NodeInfo, PodInfo
from extender.verbs import (
    NOT_SYNCED,
    VerbSettings,
    filter_booking,
    filter_candidates,
    preempt_candidates,
    prioritize_candidates,
)
from extender.wire import FilterAnswer, Form, NameList, PreemptQuestion, PrioritizeAnswer, Question, Victims
from tests.builders import node, pod

OWN = VerbSettings(BestFit())
SCHEDULER = VerbSettings(BestFit(), trust_scheduler=True)
H100 = "NVIDIA-H100-80GB-HBM3"


def view(nodes, pods=()):
    cache = Cache(tentative_seconds=10)
    cache.relist((n.build() for n in nodes), (p.build() for p in pods))
    return cache.view


def asked(info: PodInfo, *names: str) -> Question:
    raw = json.dumps(names).encode()
    return Question(info, Form.NAMES, NameList(raw, 0, len(raw), lambda: list(names)))


def asked_with_nodes(info: PodInfo, *infos: NodeInfo) -> Question:
    names = NameList(b"", 0, 0, lambda: [n.name for n in infos])
    return Question(info, Form.NODES, names, [b""] * len(infos), lambda at: infos[at])


def told(question: Question, answer: FilterAnswer) -> tuple[list[str], dict[str, str], list[str]]:
    """Return (names kept, name -> reason, names nothing can help)."""
    names = question.names
    failed = {names[at]: failure.reason for failure in answer.failures for at in failure.positions}
    never = [names[at] for failure in answer.failures if failure.unresolvable for at in failure.positions]
    return [names[at] for at in answer.kept], failed, sorted(never)


def scores(question: Question, answer: PrioritizeAnswer) -> dict[str, int]:
    return dict(zip(question.names, answer.scores.tolist(), strict=True))


# -- filter --------------------------------------------------------------------------------------------------------

MIXED = (
    node("free").gpus(8, H100),
    node("full").gpus(8, H100),
    node("small").gpus(1, H100),
    node("k80").gpus(8, "Tesla-K80"),
    node("cpu"),
    node("tainted").gpus(8, H100).taint("dedicated", "x"),
)
FULL = (pod("holder").gpus(8).on("full"),)


def test_every_candidate_stays_or_has_its_reason():
    question = asked(pod("p").gpus(2).types("H100").build(), "k80", "free", "small", "cpu", "full", "tainted")
    kept, failed, never = told(question, filter_candidates(view(MIXED, FULL), question, OWN))
    assert kept == ["free"]
    assert failed == {
        "k80": "GPU model Tesla-K80 is not one of H100",
        "small": "Insufficient nvidia.com/gpu",
        "cpu": "Insufficient nvidia.com/gpu",
        "full": "Insufficient nvidia.com/gpu",
        "tainted": "node(s) had untolerated taint {dedicated: x}",
    }
    assert never == ["cpu", "k80", "small", "tainted"], "only from `full` can pods leave"


def test_the_schedulers_count_is_trusted_but_a_wrong_model_is_not():
    question = asked(pod("p").gpus(2).types("H100").build(), "k80", "free", "small", "cpu", "full", "tainted")
    kept, failed, _ = told(question, filter_candidates(view(MIXED, FULL), question, SCHEDULER))
    assert kept == ["free", "small", "cpu", "full"]
    assert sorted(failed) == ["k80", "tainted"]


def test_a_pod_without_gpus_is_left_alone_even_on_unknown_nodes():
    question = asked(pod("web").cpu(4).build(), "tainted", "never-seen", "full")
    kept, failed, _ = told(question, filter_candidates(view(MIXED, FULL), question, OWN))
    assert (kept, failed) == (["tainted", "never-seen", "full"], {})


def test_an_unknown_node_fails_while_others_are_left():
    question = asked(pod("p").gpus(1).build(), "new", "free")
    answer = filter_candidates(view(MIXED), question, OWN)
    assert told(question, answer) == (["free"], {"new": UNKNOWN_NODE}, [])
    assert [failure.cause for failure in answer.failures] == ["unknown_node"]


@pytest.mark.parametrize("names", [["new"], ["new", "full"], ["cpu", "new", "newer"]])
def test_when_only_time_can_help_the_answer_is_an_error(names):
    question = asked(pod("p").gpus(1).build(), *names)
    answer = filter_candidates(view(MIXED, FULL), question, OWN)
    assert f"of {len(names)} are not known yet" in answer.error


WAITING = pod("big").gpus(8).priority(5).refused()


@pytest.mark.parametrize(
    ("small", "names", "error"),
    [
        (pod("p").gpus(1), ["free"], True),
        (pod("p").gpus(1), ["free", "full", "k80"], True),  # nobody on `full` is less important
        (pod("p").gpus(1).priority(5), ["free"], True),  # `full` was not offered, so the hold alone is in the way
        (pod("p").gpus(1).priority(5), ["free", "full"], False),
        (pod("p").gpus(1).priority(5), ["new", "full"], False),
        (pod("p").gpus(1).priority(5), ["free", "small"], True),  # `small` is empty, and too small
        (pod("p").gpus(1).priority(5)._with(may_preempt=False), ["free", "full"], True),
    ],
)
def test_an_error_does_not_stand_in_the_way_of_preemption(small, names, error):
    nodes = [n for n in MIXED if n.build().name != "small"] + [node("small").gpus(1, H100).resource("pods", 0)]
    state = view(nodes, (*FULL, WAITING.types("H100")))
    assert [hold.node for hold in state.holds.lines.values()] == ["free"]
    question = asked(small.types("H100").build(), *names)
    answer = filter_candidates(state, question, OWN)
    assert bool(answer.error) is error
    if not error:
        assert sorted(told(question, answer)[1]) == sorted(names), "each with its reason, none beyond help"
        assert told(question, answer)[2] == []


def test_a_plain_refusal_of_all_is_no_error():
    question = asked(pod("p").gpus(1).build(), "full", "cpu")
    answer = filter_candidates(view(MIXED, FULL), question, OWN)
    assert (answer.error, len(answer.kept)) == ("", 0)


def test_what_kube_scheduler_has_judged_otherwise_is_an_error_once_nothing_is_left():
    # Just uncordoned, say: as FailedNodes the pod would wait for the next event in the cluster, up to five minutes.
    cordoned = (*MIXED, node("cordoned").gpus(8, H100).cordoned())
    question = asked(pod("p").gpus(1).types("H100").build(), "tainted", "cordoned", "k80")
    answer = filter_candidates(view(cordoned, FULL), question, SCHEDULER)
    assert answer.error == (
        "no candidate is left, and 2 of 3 are offered although we still read: "
        "node(s) were unschedulable, node(s) had untolerated taint {dedicated: x}"
    )
    assert filter_candidates(view(cordoned, FULL), question, OWN).error == ""
    others_left = asked(question.pod, "tainted", "free")
    assert told(others_left, filter_candidates(view(cordoned, FULL), others_left, SCHEDULER))[0] == ["free"]


@pytest.mark.parametrize(
    ("names", "settings", "unsure"),
    [
        (["k80"], SCHEDULER, True),
        (["tainted"], SCHEDULER, True),
        (["new"], SCHEDULER, True),
        (["full"], OWN, True),
        (["free", "k80", "new"], SCHEDULER, False),
        ([], SCHEDULER, False),
    ],
)
def test_only_an_answer_without_a_node_may_be_changed_by_news(names, settings, unsure):
    question = asked(pod("p").gpus(1).types("H100").build(), *names)
    assert filter_candidates(view(MIXED, FULL), question, settings).unsure is unsure
    assert not filter_candidates(Cache(tentative_seconds=10).view, question, settings).unsure, "not synced"


def test_before_the_first_lists_are_in_nothing_is_known():
    question = asked(pod("p").gpus(1).build(), "free")
    empty = Cache(tentative_seconds=10).view
    assert filter_candidates(empty, question, OWN).error == NOT_SYNCED
    assert scores(question, prioritize_candidates(empty, question, OWN)) == {"free": 0}
    assert preempt_candidates(empty, PreemptQuestion(question.pod, {"free": Victims(("a",))}), OWN) == {}


def test_node_objects_of_unknown_nodes_are_used():
    fresh = node("fresh").gpus(4, H100).build()
    cache = Cache(tentative_seconds=10)
    cache.relist([node("full").gpus(8, H100).build()], [p.build() for p in (*FULL, pod("early").gpus(3).on("fresh"))])
    small, large = (
        asked_with_nodes(pod("p").gpus(gpus).build(), cache.snapshot.table.nodes[0], fresh) for gpus in (1, 2)
    )
    assert told(small, filter_candidates(cache.view, small, OWN))[0] == ["fresh"]
    assert scores(small, prioritize_candidates(cache.view, small, OWN)) == {"full": 0, "fresh": MAX_SCORE}
    # One pod of 3 GPUs is bound there already: one GPU is left.
    assert told(large, filter_candidates(cache.view, large, OWN))[1]["fresh"] == "Insufficient nvidia.com/gpu"
    assert cache.snapshot.table.names == ("full",), "a question adds nothing to the cache"


def test_an_empty_question_has_an_empty_answer():
    question = asked(pod("p").gpus(1).build())
    answer = filter_candidates(view(MIXED), question, OWN)
    assert (answer.error, len(answer.kept), answer.failures) == ("", 0, ())


@pytest.mark.parametrize(
    ("gpus", "names", "booked"), [(1, ["free", "full"], "free"), (1, ["free", "k80"], None), (0, ["free"], None)]
)
def test_filter_books_when_it_leaves_no_choice(gpus, names, booked):
    question = asked(pod("p").gpus(gpus).build(), *names)
    assert filter_booking(question, filter_candidates(view(MIXED, FULL), question, OWN)) == booked


# -- prioritize ----------------------------------------------------------------------------------------------------


def test_exactly_one_ten_among_those_that_fit_and_zero_for_the_rest():
    question = asked(pod("p").gpus(1).build(), "full", "new", "free", "k80", "small", "cpu")
    answer = prioritize_candidates(view(MIXED, FULL), question, OWN)
    got = scores(question, answer)
    # Best fit: the one-GPU node is used up, the others would keep seven.
    assert answer.best == "small"
    assert got["small"] == MAX_SCORE
    assert [got[name] for name in ("full", "new", "cpu")] == [0, 0, 0]
    assert list(got.values()).count(MAX_SCORE) == 1


def test_a_node_asked_about_twice_gets_its_score_once():
    question = asked(pod("p").gpus(1).build(), "free", "small", "free", "small")
    answer = prioritize_candidates(view(MIXED), question, OWN)
    assert answer.scores.tolist()[1] == MAX_SCORE
    assert answer.scores.tolist()[2:] == [0, 0]


def test_nothing_fits_by_our_count_so_all_are_zero_and_none_is_booked():
    question = asked(pod("p").gpus(1).build(), "full", "cpu")
    answer = prioritize_candidates(view(MIXED, FULL), question, SCHEDULER)
    assert (answer.scores.tolist(), answer.best) == ([0, 0], None)


def test_pods_without_gpus_are_scored_or_passed_through_as_configured():
    question = asked(pod("web").cpu(1).build(), "free", "cpu")
    through = replace(OWN, pass_through_pods_without_gpus=True)
    assert prioritize_candidates(view(MIXED), question, through).scores.tolist() == [0, 0]
    assert MAX_SCORE in prioritize_candidates(view(MIXED), question, OWN).scores


def test_of_many_candidates_the_best_alone_is_listed():
    seen = view(MIXED, FULL)
    question = asked(pod("p").gpus(1).build(), "full", "new", "free", "k80", "small", "cpu")
    ranked = prioritize_candidates(seen, question, replace(OWN, ranked_up_to=6))
    short = prioritize_candidates(seen, question, replace(OWN, ranked_up_to=5))
    assert (len(ranked.scores), ranked.left_out) == (6, 0)
    assert (short.scores.tolist(), short.best, short.left_out) == ([MAX_SCORE], ranked.best, 5)
    assert [short.table.names[row] for row in short.rows] == [ranked.best]


def test_of_many_candidates_of_which_none_fits_nobody_is_listed():
    question = asked(pod("p").gpus(1).build(), "full", "cpu")
    answer = prioritize_candidates(view(MIXED, FULL), question, replace(SCHEDULER, ranked_up_to=0))
    assert (answer.scores.tolist(), answer.best, answer.left_out) == ([], None, 2)


def test_known_rows_change_nothing():
    seen = view(MIXED, FULL)
    question = asked(pod("p").gpus(1).build(), "k80", "free", "small")
    located = np.array([seen.snapshot.table.index[name] for name in question.names], dtype=np.intp)
    slow = prioritize_candidates(seen, question, OWN)
    fast = prioritize_candidates(seen, question, OWN, located)
    assert slow.scores.tolist() == fast.scores.tolist()


def test_asked_twice_a_pod_is_scored_the_same_and_the_next_pod_sees_the_booking():
    cache = Cache(tentative_seconds=10)
    cache.relist([node("a").gpus(2).build(), node("b").gpus(3).build()], [])
    first, second = (asked(pod(name).gpus(2).build(), "a", "b") for name in ("first", "second"))
    before = prioritize_candidates(cache.view, first, OWN)
    assert before.best == "a"
    cache.assume(first.pod, "a", now=0.0)
    assert prioritize_candidates(cache.view, first, OWN).scores.tolist() == before.scores.tolist()
    assert filter_candidates(cache.view, second, OWN).kept.tolist() == [0, 1], "the ledger decides no fit"
    assert prioritize_candidates(cache.view, second, OWN).best == "b", "but `a` is spoken for"


# -- preempt -------------------------------------------------------------------------------------------------------

HELD = (
    pod("low-4").gpus(4).on("n1"),
    pod("low-3").gpus(3).on("n1"),
    pod("low-1").gpus(1).on("n1").priority(3),
    pod("high").gpus(6).on("n3").priority(1000),
    pod("low").gpus(2).on("n3"),
)
THREE = (node("n1").gpus(8, H100), node("n2").gpus(8, "Tesla-K80"), node("n3").gpus(8, H100), node("tiny").gpus(4))


def preempt(info, candidates, settings=OWN):
    found = preempt_candidates(view(THREE, HELD), PreemptQuestion(info.build(), candidates), settings)
    return {name: (victims.uids, victims.pdb_violations) for name, victims in found.items()}


def test_candidates_are_echoed_when_evicting_can_help():
    victims = {"n3": Victims(("uid-ml-low",), pdb_violations=2), "n1": Victims(("uid-ml-low-4",))}
    got = preempt(pod("urgent").gpus(2).priority(500), victims)
    assert got == {"n3": (("uid-ml-low",), 2), "n1": (("uid-ml-low-4",), 0)}
    assert list(got) == ["n3", "n1"]


def test_nodes_on_which_the_pod_can_never_run_are_dropped():
    victims = {name: Victims(("x",)) for name in ("n1", "n2", "tiny", "unknown")}
    urgent = pod("urgent").gpus(8).types("H100").priority(500)
    assert sorted(preempt(urgent, victims)) == ["n1", "unknown"]
    # What the scheduler counts is its business; that K80 is the wrong model is ours.
    assert sorted(preempt(urgent, victims, SCHEDULER)) == ["n1", "unknown"]
    assert sorted(preempt(pod("urgent").gpus(8).priority(500), victims, SCHEDULER)) == ["n1", "n2", "tiny", "unknown"]


def test_victims_are_chosen_where_the_scheduler_names_none():
    nothing = {name: Victims((), pdb_violations=1) for name in ("n1", "n2", "n3", "unknown")}
    got = preempt(pod("urgent").gpus(8).priority(500), nothing)
    # n1: all three pods must go. n2 is empty, nobody need leave. n3: the pod of priority 1000 stays.
    assert {name: (sorted(uids), violations) for name, (uids, violations) in got.items()} == {
        "n1": (["uid-ml-low-1", "uid-ml-low-3", "uid-ml-low-4"], 1)
    }


def test_as_few_and_as_unimportant_pods_as_possible_are_chosen():
    # 4 GPUs are wanted of 8 held: the pod of priority 3 is given back first, then one of 4 and 3 GPUs must go on top.
    got = preempt(pod("urgent").gpus(4).priority(500), {"n1": Victims(())})
    assert got == {"n1": (("uid-ml-low-4",), 0)}


@pytest.mark.parametrize(
    "info",
    [
        pod("never").gpus(2).priority(500)._with(may_preempt=False),
        pod("equal").gpus(2),  # priority 0, as its victims
    ],
)
def test_a_pod_that_may_not_evict_gets_nothing(info):
    assert preempt(info, {"n1": Victims(("uid-ml-low-4",))}) == {}


def test_the_priorities_in_the_request_count_too():
    victims = {"unknown": Victims(("a",), {"a": 500}), "n1": Victims(("b",), {"b": 499})}
    assert sorted(preempt(pod("urgent").gpus(2).priority(500), victims)) == ["n1"]
