from __future__ import annotations

import json

import pytest

from extender.dump import read_pods, superseded
from extender.errors import DumpError
from extender.packing.resources import MAX_AMOUNT
from extender.packing.types import Phase
from extender.remarks import condensed
from tests.apiobjects import GPU, RULES, a_node, a_pod, container, listing, read

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {GPU: "8"}}}
FLOW_NODE = b"{kind: Node, metadata: {name: n}, status: {capacity: {nvidia.com/gpu: '8'}}}"
NODE_YAML = b"apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {capacity: {nvidia.com/gpu: 8}}\n"


def names(dump):
    return [node.name for node in dump.nodes], [pod.name for pod in dump.pods]


def fault(*texts):
    with pytest.raises(DumpError) as caught:
        read(*texts)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- forms


@pytest.mark.parametrize(
    "text",
    [
        listing(NODE, a_pod("p")),
        b"\xef\xbb\xbf \n" + listing(NODE, a_pod("p")),
        listing(NODE, a_pod("p")).decode().encode("utf-16"),
        json.dumps([NODE, a_pod("p")]).encode(),
        b"  " + json.dumps(NODE, indent="\t").encode() + b"\n\n" + json.dumps(a_pod("p")).encode() + b"\n",
        listing(NODE) + listing(a_pod("p"), kind="PodList"),
        NODE_YAML + b"---\n---\n" + json.dumps(a_pod("p")).encode(),
        b"kind: List\nitems:\n- " + FLOW_NODE + b"\n- {kind: Pod, metadata: {name: p, labels: {a: 2026-01-01}}}\n",
        b"- " + FLOW_NODE + b"\n- kind: Pod\n  metadata:\n    name: p\n",
        FLOW_NODE + b"\n---\n{kind: Pod, metadata: {name: p}}",
        json.dumps(NODE).encode() + b"\n---\n" + json.dumps(a_pod("p")).encode() + b"\n---\n",
    ],
    ids=[
        *("list", "byte-order-mark", "utf-16", "array", "stream", "lists", "documents"),
        *("yaml-list", "sequence", "flow", "separated"),
    ],
)
def test_every_form_of_a_dump(text):
    dump = read(text)
    assert names(dump) == (["n"], ["p"])
    assert dump.nodes[0].allocatable[GPU] == 8
    assert dump.warnings == ()


def test_items_of_a_typed_list_need_no_kind():
    nodes, pods = {"metadata": {"name": "n"}}, {"metadata": {"name": "p"}}
    assert names(read(listing(nodes, kind="NodeList"), listing(pods, kind="PodList"))) == (["n"], ["p"])


@pytest.mark.parametrize("items", ["[]", "null"])
def test_an_empty_list_is_an_empty_cluster(items):
    dump = read(f'{{"kind": "List", "items": {items}}}'.encode())
    assert (dump.nodes, dump.pods, dump.warnings) == ((), (), ())


def test_files_are_merged_in_order():
    dump = read(listing(a_node("b")), listing(a_pod("p")), listing(a_node("a")))
    assert names(dump) == (["b", "a"], ["p"])


def test_yaml_numbers_are_amounts_and_dates_are_text():
    dump = read(
        b"kind: Pod\nmetadata: {name: p, creationTimestamp: 1970-01-01T00:00:05Z}\n"
        b"spec: {containers: [{resources: {limits: {cpu: 0.5, nvidia.com/gpu: 2}}}]}\n"
    )
    assert dump.pods[0].requests == {"cpu": 500, GPU: 2}
    assert dump.pods[0].created == 5.0


def test_what_is_nested_too_deep_in_a_field_that_nobody_reads_is_left_out():
    deep = b'{"]":["[",' * 5000 + b"]}" * 5000
    text = listing(NODE | {"new": "DEEP"}, a_pod("p")).replace(b'"DEEP"', deep)
    assert names(read(text)) == (["n"], ["p"])
    assert names(read(text + listing(a_pod("q")))) == (["n"], ["p", "q"])
    known = listing(NODE, a_pod("p", tolerations="DEEP")).replace(b'"DEEP"', deep)
    assert fault(known).startswith("file1: item 2 (Pod ml/p): spec.tolerations: Expected array")


# ---------------------------------------------------------------- faults


NESTED_YAML = b"kind: Node\n" + b"".join(b" " * at + b"a:\n" for at in range(2000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "file1: is empty"),
        (b"\n---\n", "file1: is empty"),
        (b"\xff\xfe\xff", "file1: byte "),
        (b"\x80abc", "file1: byte 1: not utf-8 text"),
        (listing(NODE)[:-5], "file1: not readable as JSON: line 1, column "),
        (b'{"kind": "List" "items": []}', "file1: not readable as JSON: line 1, column 17: Expecting ',' delimiter"),
        (b'{"a": ' + b"[" * 100_000, "file1: not readable as JSON: nested too deep"),
        (b"a: " + b"[" * 500, "file1: not readable as YAML: line 1, column 303: nested too deep"),
        (b"a: " + b"[" * 100_000, "file1: not readable as YAML: line 1, column "),
        (NESTED_YAML, "file1: not readable as YAML: line 302, column 301: nested too deep"),
        (b"a: [1\nb: 2", "file1: not readable as YAML: line 2, column "),
        (b"kind: Node\n\tname: x", "file1: not readable as YAML: line 2, column 1"),
        (b"error: You must be logged in to the server", "file1: item 1 (no kind without a name): kind: missing"),
        (b"just text", "file1: not a Kubernetes object or list: Expected object, got str"),
        (b'{"kind": "List", "items": {}}', "file1: not a Kubernetes object or list: items: Expected array, got object"),
        (listing("x"), "file1: item 1 (no kind without a name): Expected object, got str"),
        (listing(NODE, {"metadata": {"name": "x"}}), "file1: item 2 (no kind x): kind: missing"),
        (listing({"kind": "Node"}), "file1: item 1 (Node without a name): metadata.name: missing"),
        (listing({"kind": "Pod", "metadata": {}}), "file1: item 1 (Pod without a name): metadata.name: missing"),
        (
            listing(NODE, a_pod("p", nodeSelector=["a"])),
            "file1: item 2 (Pod ml/p): spec.nodeSelector: Expected object, got array",
        ),
        (
            listing(a_pod("p", containers=[container({GPU: 1}), {"resources": 7}])),
            "file1: item 1 (Pod ml/p): spec.containers[1].resources: Expected object, got int",
        ),
        (
            b"kind: Node\nmetadata: {name: n, labels: {a: b, nvidia.com/gpu.count: 8}}",
            "file1: item 1 (Node n): metadata.labels[nvidia.com/gpu.count]: Expected str, got int",
        ),
        (
            listing(a_pod("p", nodeSelector={"a": "b", "c": True})),
            "file1: item 1 (Pod ml/p): spec.nodeSelector[c]: Expected str, got bool",
        ),
        (
            # a case of values written as YAML integers: the API server refuses them, too
            listing(
                a_pod(
                    "p",
                    affinity={
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": "m", "operator": "Gt", "values": [4]}]}
                                ]
                            }
                        }
                    },
                )
            ),
            "matchExpressions[0].values[0]: Expected str, got int",
        ),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(text, words):
    assert words in fault(text)


def test_items_are_numbered_over_all_documents_of_a_file():
    assert fault(listing(NODE), NODE_YAML + b"---\nkind: Pod").startswith("file2: item 2 (Pod without a name)")


# ---------------------------------------------------------------- warnings of the merge


def test_other_kinds_are_counted_and_left_out():
    dump = read(
        listing(
            NODE,
            {"kind": "Service", "metadata": {"name": "s"}, "spec": {"nodeName": 7}},
            {"kind": "ConfigMap"},
            {"kind": "ConfigMap"},
            {"apiVersion": "management.cattle.io/v3", "kind": "Node", "metadata": {"name": "other"}},
        )
    )
    assert names(dump) == (["n"], [])
    kinds = "ConfigMap 2, Node of management.cattle.io/v3 1, Service 1"
    assert dump.warnings == (f"file1: ignored 4 items of other kinds: {kinds}",)


def test_of_two_objects_with_one_name_the_later_counts():
    dump = read(listing(a_node("n", 4), a_pod("p", 1), a_node("m")), listing(a_pod("p", 2), a_node("n", 8)))
    assert [(node.name, node.allocatable[GPU]) for node in dump.nodes] == [("m", 8), ("n", 8)]
    assert [pod.requests[GPU] for pod in dump.pods] == [2]
    assert dump.warnings == (
        "pod ml/p: given more than once; the last one counts",
        "node n: given more than once; the last one counts",
    )


def test_a_finished_pod_replaces_its_earlier_self_and_is_replaced_by_its_later():
    ended = a_pod("p", node="n", phase="Succeeded")
    assert names(read(listing(NODE, a_pod("p", node="n"), ended)))[1] == []
    assert names(read(listing(NODE, ended, a_pod("p", node="n"))))[1] == ["p"]


def test_many_duplicates_do_not_flood_the_warnings():
    pods = [a_pod(f"p{number:02}") for number in range(50)]
    warnings = read(listing(*pods), listing(*pods)).warnings
    assert len(warnings) == 50
    assert len(condensed(warnings)) == 5
    assert condensed(warnings)[-1].endswith("(and 45 more like this)")


def test_pods_with_one_uid_are_told_apart_by_name():
    pods = [a_pod("p"), a_pod("q")]
    for pod in pods:
        pod["metadata"]["uid"] = "same"
    dump = read(listing(*pods))
    assert [pod.uid for pod in dump.pods] == ["same", "ml/q"]
    assert dump.warnings == ("pod ml/q: has the uid of ml/p; told apart by name",)


def test_bad_amounts_are_warnings_with_name_and_field():
    dump = read(listing(a_node("n", "8K"), a_pod("p", "eight")))
    assert dump.warnings == (
        f"node n: status.capacity[{GPU}]: '8K' is not a quantity; counted as 0",
        f"pod ml/p: spec.containers[0].resources.requests[{GPU}]: 'eight' is not a quantity; counted as 0",
    )


# ---------------------------------------------------------------- pod groups


def a_pod_group(name="g", version="scheduling.x-k8s.io/v1alpha1", **spec):
    return {
        "apiVersion": version, "kind": "PodGroup", "metadata": {"name": name, "namespace": "ml"}, "spec": spec
    }  # fmt: skip


def sizes(pods):
    return [pod.group.size for pod in pods]


def a_member(name, group="g", **labels):
    member = a_pod(name)
    member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group, **labels}
    return member


@pytest.mark.parametrize(
    ("group", "size"),
    [
        (a_pod_group(minMember=2), 2),
        (a_pod_group(version="scheduling.sigs.k8s.io/v1alpha1", minMember=2), 2),
        (a_pod_group(version="scheduling.volcano.sh/v1beta1", minMember=2, queue="default"), 2),
        (a_pod_group(version="scheduling.k8s.io/v1alpha2", schedulingPolicy={"gang": {"minCount": 2}}), 2),
        (a_pod_group(version="scheduling.k8s.io/v1alpha2", schedulingPolicy={"basic": {}}), 1),
        (a_pod_group(), None),
        (a_pod_group("other", minMember=2), None),
    ],
)
def test_pods_have_the_size_that_their_pod_group_says(group, size):
    for items in ([a_member("p"), group], [group, a_member("p")]):
        dump = read(listing(*items))
        assert sizes(dump.pods) == [size]
        assert dump.warnings == ()


def test_a_pod_group_counts_before_what_pods_promise():
    marker = "pod-group.scheduling.sigs.k8s.io"
    member = a_pod("p")
    member["metadata"]["labels"] = {marker: "g", f"{marker}/min-available": "5"}
    assert sizes(read(listing(member, a_pod_group(minMember=2))).pods) == [2]
    assert sizes(read(listing(member, a_pod_group())).pods) == [5]


def test_faults_of_pod_groups_are_told():
    with pytest.raises(DumpError, match=r"item 1 \(PodGroup of \S+ ml/g\): spec.minMember: "):
        read(listing(a_pod_group(minMember="two")))
    with pytest.raises(DumpError, match=r"item 1 \(PodGroup of .*metadata.name: missing"):
        read(listing(a_pod_group("")))
    dump = read(listing(a_member("p"), a_pod_group(minMember=3), a_pod_group(minMember=0)))
    assert sizes(dump.pods) == [None]
    assert dump.warnings == (
        "podgroup ml/g: spec.minMember: 0 is less than 1; it is ignored, all pods of the group are taken",
        "podgroup ml/g: given more than once; the last one counts",
    )


def test_pod_groups_of_others_are_not_ours():
    dump = read(listing(a_member("p"), a_pod_group(version="scheduling.run.ai/v2alpha2", minMember=2)))
    assert sizes(dump.pods) == [None]
    assert dump.warnings == ("file1: ignored 1 items of other kinds: PodGroup of scheduling.run.ai/v2alpha2 1",)


def test_arrivals_have_pod_groups_of_their_own_and_those_of_the_cluster():
    cluster = read(listing(a_pod_group("g", minMember=2), a_pod_group("h", minMember=2))).pod_groups
    text = listing(a_member("p"), a_member("q", "h"), a_pod_group("g", minMember=3))
    given = read_pods([("arrivals", text)], RULES, cluster)
    assert sizes(given.pods) == [3, 2]
    assert given.warnings == ()


# ---------------------------------------------------------------- arrivals


def test_arrivals_keep_their_order_and_are_as_new():
    running = a_pod("b", 2, "n", phase="Running")
    running["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    running["status"] |= {"nominatedNodeName": "n", "reason": "Because"}
    ended = a_pod("a", 1, "n", phase="Succeeded")
    given = read_pods([("one", listing(running)), ("two", listing(ended, NODE, a_pod("c")))], RULES)
    assert [pod.name for pod in given.pods] == ["b", "a", "c"]
    assert all(pod.waiting and pod.phase is Phase.PENDING for pod in given.pods)
    assert {(pod.node_name, pod.nominated_node, pod.failure_reason) for pod in given.pods} == {("", "", "")}
    assert given.warnings == ("two: ignored 1 items of other kinds: Node 1",)


def test_of_arrivals_it_is_known_where_they_are_and_which_will_never_be_anywhere():
    going = a_pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    given = read_pods([("one", listing(a_pod("runs", 1, "n", phase="Running"), going, a_pod("waits")))], RULES)
    assert given.nodes == {"ml/runs": "n"}
    assert [pod.name for pod in given.pods if pod.terminating] == ["going"]


def test_pods_that_are_given_anew_do_not_count():
    pods = read(listing(a_pod("p", 1, "n", phase="Running"), a_pod("q"), a_pod("r"))).pods
    stay, warnings = superseded(pods, read_pods([("one", listing(a_pod("p"), a_pod("r")))], RULES).pods)
    assert [pod.name for pod in stay] == ["q"]
    assert warnings == [f"pod ml/{name}: given more than once; the last one counts" for name in ("p", "r")]


def test_what_makes_pods_is_no_pod():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ml"}}
    with pytest.raises(DumpError, match=r"one: item 1 \(Job of batch/v1 ml/j\): there is no Pod; give one"):
        read_pods([("one", listing(job, NODE))], RULES)
    assert read_pods([("one", listing(job, a_pod("p")))], RULES).warnings
    assert read_pods([("one", listing())], RULES).pods == ()


def test_a_gated_arrival_stays_gated():
    assert read_pods([("one", listing(a_pod("p", schedulingGates=[{"name": "g"}])))], RULES).pods[0].gated


def test_faults_of_arrivals_are_told_like_those_of_dumps():
    with pytest.raises(DumpError, match=r"one: item 1 \(Pod without a name\): metadata.name: missing"):
        read_pods([("one", listing({"kind": "Pod"}))], RULES)


# ---------------------------------------------------------------- absurd values


def with_gpus(amount):
    return json.dumps({"kind": "List", "items": [NODE]}).replace('"8"', amount).encode()


@pytest.mark.parametrize(
    ("amount", "units", "words"),
    [
        ("1e400", MAX_AMOUNT, None),  # as the API server, which caps it
        ("-1e400", 0, "'-1e400' is negative"),
        ("9" * 5000, 0, f"{'9' * 40!r} is not a quantity"),
    ],
    ids=["1e400", "-1e400", "digits"],
)
@pytest.mark.parametrize("more", [b"", b"\n" + listing()], ids=["alone", "stream"])
def test_a_number_beyond_all_bounds_costs_its_amount_and_not_the_object(amount, units, words, more):
    dump = read(with_gpus(amount) + more)
    assert names(dump) == (["n"], [])
    assert dump.nodes[0].capacity[GPU] == units
    assert dump.warnings == ((f"node n: status.capacity[{GPU}]: {words}; counted as 0",) if words else ())


@pytest.mark.parametrize("amount", ["0x" + "f" * 5000, "0b" + "1" * 20_000, "1" + ":59" * 3000, "9" * 5000])
def test_a_number_of_yaml_beyond_all_bounds_is_no_quantity_either(amount):
    dump = read(NODE_YAML.replace(b"8", amount.encode()))
    assert dump.nodes[0].capacity[GPU] == 0
    assert "is not a quantity; counted as 0" in dump.warnings[0]


@pytest.mark.parametrize("wrong", ["5", "1e400", "9" * 5000, "[1]"])
def test_a_label_that_is_no_text_is_named_whatever_stands_elsewhere(wrong):
    labels = {"a": None, "b": "x", "c": "WRONG"}
    node = {**NODE, "metadata": {"name": "n", "labels": labels}, "status": {"capacity": {GPU: "HUGE"}}}
    text = listing(node).replace(b'"WRONG"', wrong.encode()).replace(b'"HUGE"', b"9" * 5000)
    if wrong in {"1e400", "9" * 5000}:  # what stands there is text, then
        assert read(text).nodes[0].labels["c"] == wrong
    else:
        assert "item 1 (Node n): metadata.labels[c]: Expected str" in fault(text)


def test_a_number_beyond_all_bounds_where_a_number_must_stand():
    pod = {**a_pod("p"), "spec": {"priority": "HUGE"}}
    assert "item 1 (Pod ml/p): spec.priority: Integer value out of range" in fault(
        listing(pod).replace(b'"HUGE"', b"9" * 5000)
    )


def test_the_name_of_an_item_is_cut_in_a_message():
    assert len(fault(listing({"kind": "Node", "metadata": {"name": "n" * 10**6, "labels": 5}}))) < 600


@pytest.mark.parametrize("text", [b"a: !!bool x", b"a: !!float x", b"a: !!int 0x" + b"f" * 5000])
def test_a_scalar_that_is_not_what_its_tag_says_is_named_with_its_place(text):
    assert "not readable as YAML: line 1, column 4: " in fault(text)
