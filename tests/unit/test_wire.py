"""The extender's JSON: what every era sends is read, what is answered is what Go's decoder takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from extender.errors import RequestError
from extender.kube.gpurules import GpuRules
from extender.packing.table import NodeTable
from extender.wire import (
    Failure,
    FilterAnswer,
    Form,
    IncompleteError,
    PrioritizeAnswer,
    Reader,
    Victims,
    encode_error,
    encode_filter,
    encode_preempt,
    encode_prioritize,
    foreseen_names,
)
from tests.builders import node

POD = {
    "metadata": {"name": "p", "namespace": "ml", "uid": "u-1"},
    "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}], "priority": 7},
}
ODD_NAMES = ["n1", 'quo"te', "back\\slash", "n-é-日本", "\ud800", "a b", "", "\u2028", "x" * 253]


@pytest.fixture
def reader():
    return Reader(GpuRules.default(), lambda line: None)


def body(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def rows(*numbers: int):
    return np.array(numbers, dtype=np.intp)


# -- questions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        ("Pod", "Nodes", "NodeNames"),
        ("pod", "nodes", "nodenames"),
        ("pod", "nodes", "nodeNames"),
        ("POD", "NODES", "NODENAMES"),
        ("Pod", "Nodes", "Node\u017fames".replace("\u017fames", "Name\u017f")),  # Go folds the long s, too
    ],
)
def test_keys_are_read_in_any_casing(reader, keys):
    question = reader.question(body(dict(zip(keys, (POD, None, ["n1", "n2"]), strict=True))))
    assert (question.pod.key, question.pod.gpu.count, question.form) == ("ml/p", 2, Form.NAMES)
    assert question.names == ["n1", "n2"]


@pytest.mark.parametrize("items_key", ["items", "Items"])
def test_node_objects_are_kept_byte_for_byte_and_read_only_when_asked_for(reader, items_key):
    raw = b'{"metadata": {"name":"n1"},  "status":{"allocatable":{"nvidia.com/gpu":"8"}}, "x":[1.50]}'
    question = reader.question(b'{"Pod":%b,"Nodes":{"metadata":{},"%b":[%b]}}' % (body(POD), items_key.encode(), raw))
    assert question.form is Form.NODES
    assert question.names == ["n1"]
    assert [bytes(item) for item in question.items] == [raw]
    assert question.node(0).allocatable == {"nvidia.com/gpu": 8}


def test_of_keys_given_twice_the_later_one_counts(reader):
    twice = b'{"Pod":%b,"NodeNames":["a"],"NodeNames":["b"]}' % body(POD)
    assert reader.question(twice).names == ["b"]
    in_two_casings = b'{"Pod":%b,"nodenames":["a"],"NodeNames":["b"],"NODENAMES":["c"]}' % body(POD)
    assert reader.question(in_two_casings).names == ["c"]
    interleaved = b'{"Pod":%b,"NodeNames":["a"],"nodenames":["b"],"NodeNames":["c"]}' % body(POD)
    assert reader.question(interleaved).names == ["c"]


def test_unknown_keys_are_ignored(reader):
    question = reader.question(body({"Pod": POD, "NodeNames": ["a"], "node_names": ["b"], "Future": {"x": [1]}}))
    assert question.names == ["a"]


def test_names_win_when_both_forms_are_given(reader):
    both = {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "x"}}]}, "NodeNames": ["a"]}
    assert reader.question(body(both)).form is Form.NAMES


@pytest.mark.parametrize("nodes", [{}, {"items": None}, {"items": []}])
def test_a_list_without_items_is_an_empty_list(reader, nodes):
    question = reader.question(body({"Pod": POD, "Nodes": nodes}))
    assert (question.form, question.names) == (Form.NODES, [])


def test_names_of_any_kind_come_through(reader):
    question = reader.question(body({"Pod": POD, "NodeNames": ODD_NAMES}))
    assert question.names == ODD_NAMES


def test_lone_surrogates_in_a_pod_are_read_as_go_reads_them(reader):
    meta = rb'{"name":"p","namespace":"ml","annotations":{"a":"\ud800x\\ud800\ud83d\ude00"}}'
    question = reader.question(rb'{"Pod":{"metadata":%b},"nodenames":["\udc00"]}' % meta)
    assert question.pod.key == "ml/p"
    assert question.names == ["\udc00"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"Pod": None, "NodeNames": ["n1"]}, "Pod is missing"),
        ({"NodeNames": ["n1"]}, "Pod is missing"),
        ({"Pod": POD, "Nodes": None, "NodeNames": None}, "neither Nodes nor NodeNames is given"),
        ({"Pod": POD}, "neither Nodes nor NodeNames is given"),
    ],
)
def test_what_is_missing_is_named(reader, value, said):
    with pytest.raises(IncompleteError, match=said):
        reader.question(body(value))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "body: "),
        (b"not json", "body: "),
        (b'\xef\xbb\xbf{"Pod":{}}', "body: "),
        (b'{"Pod":{}} trailing', "body: "),
        (b'{"Pod":NaN,"NodeNames":[]}', "body: "),
        (b"[]", "body: Expected `object`, got `array`"),
        (b"null", "body: Expected `object`, got `null`"),
        (b"7", "body: Expected `object`, got `int`"),
        (b'{"Pod":7,"NodeNames":[]}', "Pod: Expected `object`, got `int`"),
        (b'{"Pod":{"spec":[]},"NodeNames":[]}', r"Pod\.spec: Expected `object"),
        (
            b'{"Pod":{"spec":{"containers":[{"resources":7}]}},"NodeNames":[]}',
            r"Pod\.spec\.containers\[.*\]\.resources",
        ),
        (b'{"Pod":{},"NodeNames":{}}', "NodeNames: Expected `array`, got `object`"),
        (b'{"Pod":{},"NodeNames":["a",7]}', r"NodeNames\[1\]: Expected `str`, got `int`"),
        (b'{"Pod":{},"NodeNames":["\xff"]}', "NodeNames: "),
        (b'{"Pod":{},"nodenames":["a",null]}', r"NodeNames\[1\]: Expected `str`, got `null`"),
        (b'{"Pod":{},"Nodes":7}', r"Nodes: Expected `object \| null`, got `int`"),
        (b'{"Pod":{},"Nodes":{"items":7}}', r"Nodes\.items: Expected `array \| null`, got `int`"),
        (b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}},{}]}}', r"Nodes\.items\[1\]: .*metadata"),
        (b'{"Pod":{},"Nodes":{"items":[null]}}', r"Nodes\.items\[0\]: Expected `object`, got `null`"),
        (b'{"Pod":' + b"[" * 100_000 + b"]" * 100_000 + b',"NodeNames":[]}', "nested"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line_that_names_the_field(reader, raw, said):
    with pytest.raises(RequestError) as refused:
        _ = reader.question(raw).names
    assert not isinstance(refused.value, IncompleteError)
    assert re.search(said, str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 240


def test_a_node_of_the_wrong_type_is_named_when_it_is_read(reader):
    question = reader.question(body({"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "a"}, "spec": 7}]}}))
    assert question.names == ["a"]
    with pytest.raises(RequestError, match=r"Nodes\.items\[0\]\.spec: Expected"):
        question.node(0)


def test_absurd_quantities_are_said_and_counted_as_nothing():
    said: list[str] = []
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "lots"}}}]}}
    question = Reader(GpuRules.default(), said.append).question(body({"Pod": pod, "NodeNames": ["a"]}))
    assert question.pod.gpu.count == 0
    assert said[0].startswith("pod default/p: ")


HEAD = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":'


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (HEAD + b'["a","bb"]}', ["a", "bb"]),
        (HEAD + b"[]}", []),
        (HEAD + b'[ "a", "bb" ]}', ["a", "bb"]),
        (HEAD + b'["a","new"]}', ["a", "new"]),
        (HEAD + b'["a","\\u0061"]}', ["a", "a"]),
        (HEAD + b'["a"]}\n', ["a"]),
        (HEAD + b'["a"],"NodeNames":["bb"]}', ["bb"]),
        (HEAD + b'["a"],"nodenames":["bb"]}', ["bb"]),
        (HEAD + b'["a:b"]}', ["a:b"]),
        (HEAD + b'["' + b"x" * 300 + b'"]}', ["x" * 300]),
        (b'{"NodeNames":["a"],"Pod":{"spec":{"containers":[]}}}', ["a"]),
        (b'{"Pod":{"x":[{"NodeNames":["bb"]}]},"NodeNames":["a"]}', ["a"]),
    ],
)
def test_the_list_of_names_may_come_in_any_form(reader, raw, names):
    nodes = table(["a", "bb", "ccc"])
    question = reader.question(raw)
    assert question.listed.rows(nodes).tolist() == [nodes.index.get(name, -1) for name in names]
    assert question.names == names
    assert json.loads(question.listed.json) == names


@pytest.mark.parametrize(
    "listed",
    [
        b'["a" "bb"]', b'["a";"bb"]', b'["a",]', b'["a"bb"]', b'[a]', b'["a","bb]', b'"a","bb"]', b'["a"],["bb"]',
        b'["a","\x00a"]', b'["a",,"bb"]', b'[["a"]]', b'[{"a"]', b'["a"]]', b'["a"}]',
    ],
)  # fmt: skip
@pytest.mark.parametrize("head", [HEAD, b'{"Pod":{},"nodenames":'])
def test_a_list_that_is_no_list_is_refused(reader, listed, head):
    with pytest.raises(RequestError):
        reader.question(head + listed + b"}").listed.rows(table(["a", "bb", "ccc"]))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"x":[{"NodeNames":["a"]}',  # the list ends the body, but not the object it is in
        b'{"Pod":{"NodeNames":["a"]}',
        b'{"Pod":{},"NodeNames":["a"]}]}',
        b'"NodeNames":["a"]}',
    ],
)
def test_a_body_that_only_ends_like_one_is_refused(reader, raw):
    with pytest.raises(RequestError):
        reader.question(raw).listed.rows(table(["a"]))


def test_more_names_than_any_cluster_has_are_refused_before_they_are_read(reader):
    listed = b'{"Pod":{},"NodeNames":[' + b",".join([b'"a"'] * (10**6 + 1)) + b"]}"
    with pytest.raises(RequestError, match="NodeNames: more than 1000000 names"):
        reader.question(listed)


def test_a_pod_larger_than_an_api_server_holds_is_refused(reader):
    with pytest.raises(RequestError, match=r"Pod: \d+ bytes, more than an API server holds"):
        reader.question(b'{"Pod":{"kind":"' + b"x" * 2**24 + b'"},"NodeNames":["a"]}')


def test_the_same_pod_is_converted_once():
    said: list[str] = []
    reader = Reader(GpuRules.default(), said.append)
    odd = {"Pod": {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}, "NodeNames": ["a"]}
    assert reader.question(body(odd)).pod is reader.question(body(odd)).pod
    assert len(said) == 1


# -- preempt and bind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "candidates",
    [
        {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 3}}},
        {"nodeNameToMetaVictims": {"n1": {"pods": [{"uid": "a"}], "numPDBViolations": 3}}, "NodeNameToVictims": None},
    ],
)
def test_victims_by_uid(reader, candidates):
    question = reader.preempt(body({"Pod": POD} | candidates))
    assert question.candidates == {"n1": Victims(("a",), pdb_violations=3)}


def test_victims_as_whole_pods(reader):
    pods = [{"metadata": {"uid": "a"}, "spec": {"priority": 5}}, {"metadata": {"uid": "b"}, "spec": {}}]
    value = {"Pod": POD, "NodeNameToVictims": {"n1": {"Pods": pods, "NumPDBViolations": 1}, "N1": None}}
    question = reader.preempt(body(value))
    assert question.candidates == {"n1": Victims(("a", "b"), {"a": 5, "b": 0}, 1), "N1": Victims(())}
    assert list(question.candidates) == ["n1", "N1"], "node names are data: their casing stays"


def test_no_candidates_at_all(reader):
    nothing: list[dict[str, Any]] = [{}, {"NodeNameToVictims": None}, {"NodeNameToMetaVictims": {}}]
    for value in nothing:
        assert reader.preempt(body({"Pod": POD} | value)).candidates == {}


@pytest.mark.parametrize(
    "value",
    [
        {"NodeNameToMetaVictims": []},
        {"NodeNameToMetaVictims": {"n": {"Pods": [None]}}},
        {"NodeNameToMetaVictims": {"n": {"Pods": [{}]}}},
        {"NodeNameToMetaVictims": {"n": {"NumPDBViolations": "1"}}},
        {"NodeNameToMetaVictims": {"n": 7}},
        {"NodeNameToVictims": {"n": {"Pods": [{"metadata": {}}]}}},
    ],
)
def test_victims_that_cannot_be_read(reader, value):
    with pytest.raises(RequestError, match="NodeNameTo"):
        reader.preempt(body({"Pod": POD} | value))


def test_bind(reader):
    exact = {"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "n"}
    lower = {key[0].lower() + key[1:]: value for key, value in exact.items()}
    assert reader.bind(body(exact)) == reader.bind(body(lower))
    for key in exact:
        with pytest.raises(IncompleteError, match=f"{key} is missing"):
            reader.bind(body({**exact, key: ""}))
        with pytest.raises(RequestError, match=f"{key}: Expected `str`"):
            reader.bind(body({**exact, key: 7}))


# -- answers -------------------------------------------------------------------------------------------------------


def asked(reader, names: list[str]):
    return reader.question(body({"Pod": POD, "NodeNames": names}))


def table(names: list[str]) -> NodeTable:
    return NodeTable.of(node(name).build() for name in names)


@pytest.mark.parametrize("known", [True, False])
def test_a_filter_answer_by_names(reader, known):
    names = [name for name in ODD_NAMES if name != "\ud800"] if known else ODD_NAMES
    question = asked(reader, names)
    kept, failed = rows(*range(1, len(names))), rows(0)
    nodes = table(names) if known else None
    located = np.array([nodes.index[name] for name in names], dtype=np.intp) if nodes else None
    answer = FilterAnswer(kept, (Failure("taint", 'say "no"', unresolvable=True, positions=failed),), located, nodes)
    value = json.loads(encode_filter(question, answer))
    assert value == {
        "NodeNames": names[1:],
        "FailedNodes": {names[0]: 'say "no"'},
        "FailedAndUnresolvableNodes": {names[0]: 'say "no"'},
        "Error": "",
    }


def test_a_rejection_that_preemption_can_cure_stands_in_one_map_only(reader):
    failure = Failure("resources", "full", unresolvable=False, positions=rows(0, 1))
    value = json.loads(encode_filter(asked(reader, ["a", "b"]), FilterAnswer(rows(), (failure,))))
    assert value["NodeNames"] == []
    assert (value["FailedNodes"], value["FailedAndUnresolvableNodes"]) == ({"a": "full", "b": "full"}, {})


def test_names_are_echoed_as_they_came_when_all_stay(reader):
    question = reader.question(b'{"Pod":%b,"NodeNames":[ "a" , "b\\u0041" ]}' % body(POD))
    assert b'[ "a" , "b\\u0041" ]' in encode_filter(question, FilterAnswer(rows(0, 1)))


def test_names_too_long_for_slots_are_written_one_by_one(reader):
    long = "y" * 60_000
    table = NodeTable.of(node(name).build() for name in ["a", "b", long])
    question = reader.question(body({"Pod": POD, "NodeNames": ["b", long, "a"]}))
    at = rows(table.index["b"], table.index[long], table.index["a"])
    answer = FilterAnswer(rows(0, 1), (Failure("c", "why", False, rows(2)),), at, table)
    raw = encode_filter(question, answer)
    assert json.loads(raw)["NodeNames"] == ["b", long]
    assert json.loads(raw)["FailedNodes"] == {"a": "why"}
    assert len(raw) < 61_000
    assert foreseen_names(question, answer) == b""
    scores = encode_prioritize(question, PrioritizeAnswer(rows(3, 10, 0), at, table))
    assert [entry["Score"] for entry in json.loads(scores)] == [3, 10, 0]
    assert len(scores) < 61_000


def test_what_prioritize_will_be_asked_is_foreseen_as_go_writes_it(reader):
    nodes = table(["a", "bbbb", "cc"])
    failure = Failure("resources", "full", unresolvable=False, positions=rows(0))
    question = asked(reader, ["bbbb", "a", "cc"])
    answer = FilterAnswer(rows(1, 2), (failure,), rows(1, 0, 2), nodes)
    assert json.loads(encode_filter(question, answer))["NodeNames"] == ["a", "cc"]
    assert foreseen_names(question, answer) == b'["a","cc"]'
    all_stay = FilterAnswer(rows(0, 1, 2), (), rows(1, 0, 2), nodes)
    assert foreseen_names(question, all_stay) == b'["bbbb","a","cc"]'
    for unsure in (FilterAnswer(rows(0, 1, 2)), replace(answer, rows=rows(1, -1, 2)), FilterAnswer.failed("no")):
        assert foreseen_names(question, unsure) == b""


def test_a_filter_answer_by_objects_echoes_the_bytes_in_their_order(reader):
    items = [b'{"metadata":{"name":"%b"}, "v":%d.0}' % (name, at) for at, name in enumerate((b"c", b"a", b"b"))]
    question = reader.question(b'{"Pod":%b,"Nodes":{"items":[%b]},"NodeNames":null}' % (body(POD), b",".join(items)))
    failure = Failure("taint", "no", unresolvable=False, positions=rows(1))
    encoded = encode_filter(question, FilterAnswer(rows(0, 2), (failure,)))
    assert b'"items":[%b,%b]' % (items[0], items[2]) in encoded
    value = json.loads(encoded)
    assert "NodeNames" not in value
    assert value["FailedNodes"] == {"a": "no"}


def test_a_filter_error_is_an_error_and_an_empty_list(reader):
    value = json.loads(encode_filter(asked(reader, ["a"]), FilterAnswer.failed("not yet")))
    assert (value["Error"], value["NodeNames"], value["FailedNodes"]) == ("not yet", [], {})


@pytest.mark.parametrize("known", [True, False])
def test_scores_are_integers_in_a_bare_array_in_the_order_asked(reader, known):
    names = ["b", "a-longer-name", "c"]
    nodes = table(names)
    located = np.array([nodes.index[name] for name in names], dtype=np.intp)
    if not known:
        located[1] = -1
    answer = PrioritizeAnswer(np.array([10, 0, 7]), located, nodes)
    raw = encode_prioritize(asked(reader, names), answer)
    assert json.loads(raw) == [
        {"Host": "b", "Score": 10},
        {"Host": "a-longer-name", "Score": 0},
        {"Host": "c", "Score": 7},
    ]
    assert b"." not in raw


def test_the_best_alone_is_a_list_of_one(reader):
    nodes = table(["b", "a-longer-name", "c"])
    answer = PrioritizeAnswer(np.array([10]), np.array([nodes.index["b"]], dtype=np.intp), nodes, "b", left_out=2)
    raw = encode_prioritize(asked(reader, ["c", "b", "unknown"]), answer)
    assert json.loads(raw) == [{"Host": "b", "Score": 10}]


def test_no_candidates_make_an_empty_array(reader):
    nodes = table(["a"])
    assert encode_prioritize(asked(reader, []), PrioritizeAnswer(np.zeros(0, dtype=np.int64), rows(), nodes)) == b"[]"


def test_preempt_answers_meta_victims_only():
    raw = encode_preempt({'n"1': Victims(("a", "b"), {"a": 1}, 2)})
    assert json.loads(raw) == {
        "NodeNameToMetaVictims": {'n"1': {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 2}}
    }
    assert encode_preempt({}) == b'{"NodeNameToMetaVictims":{}}'


def test_an_error_is_one_object():
    assert encode_error("") == b'{"Error":""}'
    assert json.loads(encode_error('no "such"\n')) == {"Error": 'no "such"\n'}
