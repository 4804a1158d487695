"""The generator of clusters and arrivals."""

import json

from extender import synthetic
from extender.dump import read_dumps, read_pods
from extender.kube.gpurules import GpuRules
from extender.packing.snapshot import Snapshot


def parse(items):
    return json.dumps(synthetic.as_list(items)).encode()


def test_the_same_seed_makes_the_same_objects():
    def pods(seed):
        return list(synthetic.Arrivals(synthetic.MIXED_CLUSTER, synthetic.TYPED_WORKLOAD, seed).pods(50))

    assert pods(1) == pods(1)
    assert pods(1) != pods(2)


def test_objects_pass_the_converters_without_a_warning():
    spec = synthetic.MIXED_CLUSTER
    dump = read_dumps(
        [("c", parse([*synthetic.node_manifests(spec), *synthetic.running_pods(spec, 1)]))], GpuRules.default()
    )
    arrivals = synthetic.Arrivals(spec, synthetic.TYPED_WORKLOAD, 3).pods(100)
    assert dump.warnings == ()
    assert read_pods([("a", parse(list(arrivals)))], GpuRules.default()).warnings == ()
    assert sum(int(Snapshot.of(dump.nodes).free_of(synthetic.GPU).sum()) for _ in "x") == spec.gpus


def test_demand_stops_once_enough_gpus_are_asked_for():
    pods = list(synthetic.Arrivals(synthetic.UNIFORM_CLUSTER, synthetic.UNTYPED_WORKLOAD, 5).demand(200))
    asked = [synthetic.gpu_count(p) for p in pods]
    assert sum(asked) >= 200 > sum(asked[:-1])


def test_typed_pods_name_only_models_with_nodes_large_enough():
    spec = synthetic.MIXED_CLUSTER
    sizes = {group.model: group.gpus for group in spec.groups}
    for pod in synthetic.Arrivals(spec, synthetic.TYPED_WORKLOAD, 9).pods(300):
        if affinity := pod["spec"].get("affinity"):
            term = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
            models = term["matchExpressions"][0]["values"]
            assert max(sizes[model] for model in models) >= synthetic.gpu_count(pod)


def test_running_pods_leave_no_node_overcommitted():
    spec = synthetic.ClusterSpec(synthetic.MIXED_CLUSTER.groups, busy_share=1.0)
    items = [*synthetic.node_manifests(spec), *synthetic.running_pods(spec, 1)]
    dump = read_dumps([("c", parse(items))], GpuRules.default())
    assert (Snapshot.of(dump.nodes, dump.pods).free >= 0).all()
