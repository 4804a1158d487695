"""The world of Kubernetes 1.6, live: under 1.22 with the legacy Policy, and under today's kube-scheduler."""

import pytest

from tests.e2e.scenarios import DECIDES, V1BETA1
from tests.e2e.worldof16 import play_packing, play_types, play_waiting

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RELEASES = [
    pytest.param("1.22", None, id="1.22-policy"),
    pytest.param("1.22", V1BETA1, id="1.22-policy-and-config"),
    pytest.param("1.37", DECIDES, id="1.37"),
]


@pytest.mark.parametrize(("minor", "config"), RELEASES)
def test_typed_pods_get_their_types_and_finished_ones_make_room(plane, cluster, tmp_path, minor, config):
    play_types(plane, cluster, tmp_path, minor, config)


@pytest.mark.parametrize(("minor", "config"), RELEASES)
def test_a_waiting_pod_gets_in_by_itself(plane, cluster, tmp_path, minor, config):
    play_waiting(plane, cluster, tmp_path, minor, config)


@pytest.mark.parametrize(("minor", "config"), RELEASES)
def test_small_pods_leave_whole_nodes_whole(plane, cluster, tmp_path, minor, config):
    play_packing(plane, cluster, tmp_path, minor, config)
