"""`config check`: what stops a start, and what a file will do in plain words."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.schedulerconfig import judge, render_verdict
from extender.schedulerconfig.component import nodes_offered
from extender.schedulerconfig.values import duration_seconds

REPOSITORY = Path(__file__).resolve().parents[2]
STOPS = ", which stops kube-scheduler at start"
V1 = "kubescheduler.config.k8s.io/v1"

OURS = {
    "urlPrefix": "http://127.0.0.1:8888/scheduler",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 130,
    "httpTimeout": "2s",
    "nodeCacheCapable": True,
    "managedResources": [{"name": "nvidia.com/gpu"}],
}


def component(*extenders, **keys):
    """Judge a KubeSchedulerConfiguration with these extenders."""
    value = {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", "extenders": list(extenders), **keys}
    return judge(yaml.safe_dump(value), source="test")


def registered(**changes):
    """Judge our registration with changes; a change to None removes the key."""
    extender = {key: value for key, value in {**OURS, **changes}.items() if value is not None}
    return component(extender, percentageOfNodesToScore=100)


def policy(extender=None, **keys):
    """Judge a Policy with our registration in its spelling, changed."""
    legacy = {**OURS, "httpTimeout": 2_000_000_000, "managedResources": None, **(extender or {})}
    value = {
        "apiVersion": "v1",
        "kind": "Policy",
        "predicates": [{"name": "GeneralPredicates"}, {"name": "CheckVolumeBinding"}],
        "priorities": [{"name": "NodeAffinityPriority", "weight": 2}],
        "extenders": [legacy],
        **keys,
    }
    return judge(json.dumps({key: item for key, item in value.items() if item is not None}), source="test")


def said(verdict, path):
    """Return the one consequence about this path."""
    (text,) = [text for text in verdict.consequences if text.startswith(f"{path}: ")]
    return text.removeprefix(f"{path}: ")


# ---------------------------------------------------------------- our own files


def judged(name):
    path = REPOSITORY / "policy" / name
    return judge(path.read_text(encoding="utf-8"), source=name)


@pytest.mark.parametrize(
    ("name", "kind", "about"),
    [
        (
            "scheduler-policy.json",
            "Policy",
            # The last four: not to be had in a Policy that 1.6 can read; docs say what to add later.
            [
                "extenders",
                "extenders[0].ignorable",
                "extenders[0].weight",
                "extenders[0].managedResources",
                "kind",
                "percentageOfNodesToScore",
                "predicates",
            ],
        ),
        (
            "kube-scheduler-config.yaml",
            "KubeSchedulerConfiguration",
            [
                "apiVersion",
                "extenders",
                "extenders[0].ignorable",
                "extenders[0].managedResources",
                "extenders[0].weight",
                "percentageOfNodesToScore",
            ],
        ),
        (
            "kube-scheduler-config-advisory.yaml",
            "KubeSchedulerConfiguration",
            [
                "apiVersion",
                "extenders",
                "extenders[0].ignorable",
                "extenders[0].managedResources",
                "extenders[0].weight",
                "percentageOfNodesToScore",
            ],
        ),
    ],
)
def test_our_files_have_no_faults_and_no_consequence_we_do_not_mean(name, kind, about):
    verdict = judged(name)
    assert (verdict.kind, verdict.faults) == (kind, ())
    assert sorted(text.split(": ")[0] for text in verdict.consequences) == sorted(about)


@pytest.mark.parametrize("name", ["scheduler-policy.json", "kube-scheduler-config.yaml"])
def test_the_shipped_weight_decides(name):
    assert "Decisive" in said(judged(name), "extenders[0].weight")
    assert "wait until the extender is back (safe)" in said(judged(name), "extenders[0].ignorable")


def test_the_advisory_weight_is_parity():
    assert "Parity" in said(judged("kube-scheduler-config-advisory.yaml"), "extenders[0].weight")


@pytest.mark.parametrize("name", ["kube-scheduler-config.yaml", "kube-scheduler-config-advisory.yaml"])
@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_our_files_do_for_1_22_to_1_24_with_their_version(name, version):
    text = (REPOSITORY / "policy" / name).read_text(encoding="utf-8").replace(V1, V1.replace("v1", version))
    assert f"/{version}\n" in text
    assert judge(text, source=name).faults == ()


def test_our_files_offer_all_nodes_by_names_only():
    for name in ("kube-scheduler-config.yaml", "kube-scheduler-config-advisory.yaml"):
        value = yaml.safe_load((REPOSITORY / "policy" / name).read_text(encoding="utf-8"))
        (extender,) = value["extenders"]
        assert (value["percentageOfNodesToScore"], extender["nodeCacheCapable"]) == (100, True)
        assert extender["managedResources"] == [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}]


def test_the_policy_is_sent_pods_with_the_resource_of_1_6():
    # Validation refuses alpha.kubernetes.io/nvidia-gpu, so only an empty list lets these pods through.
    value = json.loads((REPOSITORY / "policy" / "scheduler-policy.json").read_text(encoding="utf-8"))
    assert "managedResources" not in value["extenders"][0]


# ---------------------------------------------------------------- weight


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        # One step is weight * 10 points, the range weight * 100, in-tree 100 * (3+2+2+2+1+1+1) = 1200.
        (1, "Advisory: together they outvote our best score; decisive is 121 or more. LeastAllocated alone"),
        (11, "Advisory: together they outvote our best score; decisive is 121 or more."),
        (12, "Parity"),
        (13, "Strong"),
        (120, "Strong"),
        (121, "Decisive"),
        (130, "one step of our score is worth 1300 points, the whole range 0..10 13000"),
    ],
)
def test_a_weight_is_told_in_points(weight, words):
    assert words in said(registered(weight=weight), "extenders[0].weight")


def test_in_tree_points_follow_the_profiles_plugins():
    plugins = {
        "multiPoint": {"disabled": [{"name": "ImageLocality"}]},  # -1
        "score": {
            "disabled": [{"name": "PodTopologySpread"}],  # -2
            "enabled": [{"name": "NodeResourcesFit", "weight": 5}, {"name": "Mine"}],  # +4, +1
        },
    }
    verdict = component(OURS, profiles=[{"plugins": plugins}])
    assert "can add 1400." in said(verdict, "extenders[0].weight")


def test_a_profile_without_scorers_is_always_beaten():
    plugins = {"score": {"disabled": [{"name": "*"}]}}
    verdict = component({**OURS, "weight": 1}, profiles=[{"plugins": plugins}])
    assert "can add 0. Decisive" in said(verdict, "extenders[0].weight")


def test_a_policys_points_follow_its_priorities():
    assert "can add 200 (before 1.17" in said(policy(), "extenders[0].weight")
    # 9 without NodePreferAvoidPods, which counts for annotated nodes only.
    assert "can add 900 " in said(policy(priorities=None), "extenders[0].weight")


@pytest.mark.parametrize("weight", [None, 0, -1])
def test_prioritize_without_a_positive_weight_stops_the_scheduler(weight):
    (fault,) = registered(weight=weight).faults
    assert fault.startswith("extenders[0].weight: must be positive")


def test_a_weight_without_prioritize_has_no_effect():
    assert "no effect" in said(registered(prioritizeVerb=None), "extenders[0].weight")


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize(
    ("nodes", "percent", "offered"),
    [
        (99, 0, 99),
        (100, 0, 100),  # 50 % would be 50, the floor is 100
        (1000, 0, 420),  # 50 - 1000/125 = 42 %
        (5000, 0, 500),  # 50 - 40 = 10 %
        (15000, 0, 750),  # floor 5 %
        (1000, 5, 100),  # 50, floor 100
        (5000, 30, 1500),
        (5000, 100, 5000),
    ],
)
def test_the_search_stops_at_enough_nodes(nodes, percent, offered):
    assert nodes_offered(nodes, percent) == offered


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (None, "adaptive (not set or 0): the search stops at 420 fitting nodes of 1,000 and at 500 of 5,000"),
        (0, "420 fitting nodes"),
        (30, "30: the search stops at 300 fitting nodes of 1,000 and at 1500 of 5,000"),
        (100, "every node that fits is offered"),
    ],
)
def test_sampling_is_told_in_nodes(percent, words):
    verdict = component(OURS, percentageOfNodesToScore=percent)
    assert words in said(verdict, "percentageOfNodesToScore")


def test_a_profile_has_its_own_sampling():
    profiles = [{"percentageOfNodesToScore": 10}]
    verdict = component(OURS, percentageOfNodesToScore=100, profiles=profiles)
    assert "100 fitting nodes of 1,000" in said(verdict, "profiles[0].percentageOfNodesToScore")


# ---------------------------------------------------------------- verbs and outages (case 101)


@pytest.mark.parametrize(
    ("bind", "ignorable", "words"),
    [
        (
            "bind",
            True,
            "filter is skipped, but bind fails on older schedulers, so pods stay Pending; newer ones fall back",
        ),
        ("bind", False, "GPU pods wait until the extender is back (safe)"),
        (None, True, "pods are scheduled without packing and without our type checks, bound by kube-scheduler"),
        (None, False, "GPU pods wait until the extender is back (safe); once scored, kube-scheduler binds them"),
    ],
)
def test_an_outage_is_explained_from_ignorable_and_bind_together(bind, ignorable, words):
    assert words in said(registered(bindVerb=bind, ignorable=ignorable), "extenders[0].ignorable")


def test_without_managed_resources_an_outage_stops_every_pod():
    verdict = registered(managedResources=None)
    assert "all pods wait" in said(verdict, "extenders[0].ignorable")
    assert "every pod of every profile is sent" in said(verdict, "extenders[0].managedResources")
    assert "An outage" not in said(registered(managedResources=None, ignorable=True), "extenders[0].managedResources")


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("filterVerb", "not enforced"),
        ("prioritizeVerb", "nothing is packed"),
        ("preemptVerb", "may be evicted"),
    ],
)
def test_a_missing_verb_is_told(verb, words):
    assert words in said(registered(**{verb: None}), f"extenders[0].{verb}")


def test_bind_names_what_else_it_needs():
    assert "verbs.bind: true" in said(registered(bindVerb="bind"), "extenders[0].bindVerb")


def test_two_binders_are_refused():
    verdict = component({**OURS, "bindVerb": "bind"}, {**OURS, "bindVerb": "bind", "managedResources": []})
    assert any(text.startswith("extenders: 2 set bindVerb") for text in verdict.faults)


def test_any_extender_switches_batching_off():
    assert "opportunistic batching off" in said(registered(), "extenders")


def test_no_extender_means_nobody_asks_us():
    assert "never asked" in said(component(), "extenders")


# ---------------------------------------------------------------- one extender's fields


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("alpha.kubernetes.io/nvidia-gpu", "holds kubernetes.io/"),
        ("gpu", "has no /"),
        ("requests.nvidia.com/gpu", "starts with requests."),
        ("nvidia.com/gpu!", "no valid resource name"),
    ],
)
def test_validation_refuses_some_managed_resources(name, words):
    (fault,) = registered(managedResources=[{"name": name}]).faults
    assert fault.startswith("extenders[0].managedResources[0].name: ")
    assert words in fault


def test_a_resource_is_managed_once_over_all_extenders():
    (fault,) = component(OURS, OURS).faults
    assert fault == (
        "extenders[1].managedResources[0].name: nvidia.com/gpu is managed by extenders[0].managedResources[0] already; "
        "refused."
    )


def test_ignored_by_scheduler_names_what_it_does():
    verdict = registered(managedResources=[{"name": "nvidia.com/gpu", "ignoredByScheduler": True}])
    words = said(verdict, "extenders[0].managedResources[0].ignoredByScheduler")
    assert "stops counting nvidia.com/gpu" in words
    assert "verbs.counts: own" in words


def test_full_nodes_in_every_call_are_told():
    assert "under 10 pods per second" in said(registered(nodeCacheCapable=None), "extenders[0].nodeCacheCapable")


@pytest.mark.parametrize(
    ("timeout", "words"),
    [
        (None, "not set, so 5 s"),
        ("0s", "not set, so 5 s"),
        ("1ms", "too short"),
        ("1m30s", "up to 90 s for each verb"),
    ],
)
def test_a_timeout_is_told_in_seconds(timeout, words):
    assert words in said(registered(httpTimeout=timeout), "extenders[0].httpTimeout")


@pytest.mark.parametrize("timeout", [2_000_000_000, "2", "two seconds", True])
def test_a_timeout_in_another_form_is_a_fault(timeout):
    verdict = registered(httpTimeout=timeout)
    assert verdict.faults == (f"extenders[0].httpTimeout: must be a duration in text, such as 2s, got {timeout!r}",)
    assert not any("httpTimeout" in text for text in verdict.consequences)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2s", 2.0),
        ("500ms", 0.5),
        ("1h2m3.5s", 3723.5),
        ("0", 0.0),
        ("-1s", -1.0),
        ("5", None),
        ("s", None),
        ("", None),
    ],
)
def test_go_durations(text, seconds):
    assert duration_seconds(text) == pytest.approx(seconds) if seconds is not None else duration_seconds(text) is None


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"enableHTTPS": True}, "enableHTTPS", "not verified"),
        ({"tlsConfig": {"insecure": True}}, "tlsConfig.insecure", "not verified"),
        ({"tlsConfig": {"certFile": "/a"}}, "tlsConfig", "certFile and keyFile go together"),
        ({"urlPrefix": "http://127.0.0.1:8888", "enableHTTPS": True}, "enableHTTPS", "nothing is encrypted"),
        ({"urlPrefix": "https://gpu-extender.kube-system.svc:8888"}, "urlPrefix", "do not resolve"),
        ({"urlPrefix": "https://10.0.0.1:8888"}, "urlPrefix", "HTTP_PROXY"),
    ],
)
def test_tls_and_address_are_judged_together(changes, path, words):
    verdict = registered(**{"urlPrefix": "https://127.0.0.1:8888", **changes})
    assert verdict.faults == ()
    assert any(text.startswith(f"extenders[0].{path}: ") and words in text for text in verdict.consequences), (
        verdict.consequences
    )


def test_an_address_without_a_scheme_can_never_be_called():
    verdict = registered(urlPrefix="127.0.0.1:8888")
    assert any("urlPrefix: " in text and "every call fails" in text for text in verdict.faults)


def test_a_named_ca_is_nothing_to_talk_about():
    verdict = registered(urlPrefix="https://127.0.0.1:8888", enableHTTPS=True, tlsConfig={"caData": "YQ=="})
    assert not any("HTTPS" in text or "tls" in text for text in verdict.consequences)


def test_insecure_with_a_ca_stops_the_scheduler():
    (fault,) = registered(tlsConfig={"insecure": True, "caFile": "/ca"}).faults
    assert fault.startswith("extenders[0].tlsConfig.insecure: together with a CA")


def test_another_extender_is_judged_all_the_same():
    verdict = registered(urlPrefix="http://127.0.0.1:32766/gpushare", filterVerb="predicates")
    assert "not gpu-extender's" in said(verdict, "extenders[0]")
    assert "Decisive" in said(verdict, "extenders[0].weight")
    assert "not the port" in said(registered(urlPrefix="http://127.0.0.1:9"), "extenders[0].urlPrefix")


def test_a_verb_may_hold_slashes():
    assert not any(text.startswith("extenders[0]: ") for text in registered(filterVerb="scheduler/filter").consequences)


# ---------------------------------------------------------------- keys, versions, profiles


@pytest.mark.parametrize(
    ("extender", "keys", "fault"),
    [
        ({"enableHttps": False}, {}, f"extenders[0].enableHttps: unknown key{STOPS}; did you mean enableHTTPS?"),
        ({"ignoreable": True}, {}, f"extenders[0].ignoreable: unknown key{STOPS}; did you mean ignorable?"),
        ({"apiVersion": "v1"}, {}, f"extenders[0].apiVersion: unknown key{STOPS}"),
        (
            {"tlsConfig": {"caFiel": "/a"}},
            {},
            f"extenders[0].tlsConfig.caFiel: unknown key{STOPS}; did you mean caFile?",
        ),
        ({"weight": "5"}, {}, "extenders[0].weight: must be an integer, got '5'"),
        ({"weight": True}, {}, "extenders[0].weight: must be an integer, got True"),
        ({"ignorable": "false"}, {}, "extenders[0].ignorable: must be true or false, got 'false'"),
        (
            {"managedResources": ["nvidia.com/gpu"]},
            {},
            "extenders[0].managedResources[0]: must be a mapping with a name",
        ),
        ({}, {"healthzBindAddress": ":1"}, f"healthzBindAddress: unknown key{STOPS}"),
        (
            {},
            {"leaderElection": {"leaderElected": True}},
            f"leaderElection.leaderElected: unknown key{STOPS}; did you mean leaderElect?",
        ),
        (
            {},
            {"leaderElection": {"resourceLock": "endpoints"}},
            "leaderElection.resourceLock: must be leases, got 'endpoints'",
        ),
        ({}, {"profiles": [{"extenders": []}]}, f"profiles[0].extenders: unknown key{STOPS}"),
        (
            {},
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            "profiles[1].schedulerName: a is given twice.",
        ),
        (
            {},
            {"profiles": [{"schedulerName": "a"}, {}]},
            "profiles[1].schedulerName: must be set when there are several profiles.",
        ),
        ({}, {"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: must be an integer from 0 to 100, got 101"),
        (
            {},
            {"percentageOfNodesToScore": "100"},
            "percentageOfNodesToScore: must be an integer from 0 to 100, got '100'",
        ),
        ({}, {"parallelism": 0}, "parallelism: must be an integer above 0, got 0"),
        (
            {},
            {"apiVersion": "v1"},
            "apiVersion: must be kubescheduler.config.k8s.io/v1 (or one of its betas), got 'v1'",
        ),
        ({}, {"extenders": {}}, "extenders: must be a list"),
    ],
)
def test_the_newer_kind_is_strict(extender, keys, fault):
    assert component({**OURS, **extender}, **keys).faults == (fault,)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v1", "1.25 and newer"),
        ("v1beta3", "1.23 to 1.28; newer ones do not start"),
        ("v1beta1", "1.19 to 1.22"),
        ("v1alpha2", "1.18 only"),
    ],
)
def test_a_version_is_told_by_who_reads_it(version, words):
    verdict = component(OURS, apiVersion=f"kubescheduler.config.k8s.io/{version}")
    assert verdict.faults == ()
    assert words in said(verdict, "apiVersion")


@pytest.mark.parametrize(
    ("version", "key", "faults"),
    [
        ("v1beta3", "healthzBindAddress", 0),
        ("v1", "healthzBindAddress", 1),
        ("v1alpha2", "disablePreemption", 0),
        ("v1beta2", "disablePreemption", 1),
    ],
)
def test_older_versions_have_keys_that_newer_ones_lost(version, key, faults):
    verdict = component(OURS, apiVersion=f"kubescheduler.config.k8s.io/{version}", **{key: "127.0.0.1:1"})
    assert len(verdict.faults) == faults


def test_keys_given_twice_are_a_fault():
    text = f"apiVersion: {V1}\nkind: KubeSchedulerConfiguration\nextenders: []\nextenders: []\n"
    assert judge(text, source="x").faults == ("extenders: given twice (lines 3 and 4)",)


def test_a_second_scheduler_needs_a_lease_of_its_own():
    profiles = [{"schedulerName": "gpu"}]
    assert "a second scheduler" in said(component(OURS, profiles=profiles), "leaderElection")
    for election in ({"leaderElect": False}, {"resourceName": "gpu"}):
        verdict = component(OURS, profiles=profiles, leaderElection=election)
        assert not any(text.startswith("leaderElection") for text in verdict.consequences)


# ---------------------------------------------------------------- Policy


def test_a_policy_is_gone_in_1_23():
    assert "1.23 removed it" in said(policy(), "kind")


def test_a_policy_reads_keys_in_any_case():
    verdict = policy({"FilterVerb": "filter", "filterVerb": None, "enableHttps": False, "apiVersion": "v1"})
    assert verdict.faults == ()
    assert not any("unknown" in text or "filterVerb: missing" in text for text in verdict.consequences)


def test_a_policy_leaves_a_misspelt_key_of_an_extender_out_in_silence():
    verdict = policy({"ignoreable": True})
    assert verdict.faults == ()
    words = said(verdict, "extenders[0].ignoreable")
    assert words == "unknown key, which a Policy leaves out in silence; did you mean ignorable?"


def test_a_policy_counts_its_timeout_in_nanoseconds():
    assert policy({"httpTimeout": "2s"}).faults == (
        "extenders[0].httpTimeout: must be integer nanoseconds (2000000000 is 2 s), got '2s'",
    )
    assert "A Policy counts nanoseconds" in said(policy({"httpTimeout": 5}), "extenders[0].httpTimeout")


def test_a_policy_cannot_set_sampling():
    assert "cannot be set in a Policy" in said(policy(), "percentageOfNodesToScore")


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"extendrs": []}, "extendrs: unknown key. 1.22 does not start with it, older"),
        ({"Predicates": []}, "Predicates: unknown key. 1.22 does not start with it, older"),
        ({"ExtenderConfigs": []}, "ExtenderConfigs: read by some 1.7 builds only"),
        ({"percentageOfNodesToScore": 100}, "percentageOfNodesToScore: has no place in a Policy"),
        ({"priorities": [{"name": "EqualPriority", "Weight": 1, "weight": 1}]}, "priorities[0].Weight: unknown key. "),
        ({"predicates": [{"Name": "x", "name": "GeneralPredicates"}]}, "predicates[0].Name: unknown key. "),
    ],
)
def test_keys_outside_extenders_stop_1_22(keys, fault):
    (found,) = policy(**keys).faults
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("keys", "path", "words"),
    [
        ({"predicates": None}, "predicates", "before that none at all"),
        ({"predicates": [{"name": "CheckVolumeBinding"}]}, "predicates", "nothing counts CPU"),
        ({"predicates": [{"name": "GeneralPredicates"}]}, "predicates", "WaitForFirstConsumer"),
        ({"priorities": None}, "priorities", "1.22 does not start with it at -v 2"),
        ({"priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}, "priorities", "at -v 2 or more"),
        ({"priorities": [{"name": "NodePreferAvoidPodsPriority", "weight": 10000}]}, "priorities", "outvotes us"),
    ],
)
def test_lists_of_a_policy_mean_different_things_in_different_releases(keys, path, words):
    assert words in said(policy(**keys), path)


def test_names_of_older_releases_stop_newer_ones():
    verdict = policy(priorities=[{"name": "ResourceLimitsPriority", "weight": 1}])
    assert "1.22 among them" in said(verdict, "priorities")
    names = ["GeneralPredicates", "CheckVolumeBinding", "CheckNodeMemoryPressure"]
    verdict = policy(predicates=[{"name": name} for name in names])
    assert "1.22 among them" in said(verdict, "predicates")


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (
            {"predicates": [{"name": "GeneralPredicate"}]},
            "predicates[0].name: GeneralPredicate is known to no kube-scheduler; did you mean GeneralPredicates?",
        ),
        (
            {"priorities": [{"name": "ImageLocality", "weight": 1}]},
            "priorities[0].name: ImageLocality is known to no kube-scheduler; did you mean ImageLocalityPriority?",
        ),
        ({"priorities": [{"name": "EqualPriority"}]}, "priorities[0].weight: must be an integer above 0, got None"),
        ({"predicates": {}}, "predicates: must be a list"),
        (
            {"apiVersion": "v2"},
            "apiVersion: must be v1 or kubescheduler.config.k8s.io/v1 (the second from 1.17), got 'v2'",
        ),
    ],
)
def test_faults_of_a_policy(keys, fault):
    assert policy(**keys).faults == (fault,)


def test_a_custom_predicate_has_a_name_of_its_own():
    custom = {"name": "zone", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}}
    assert policy(predicates=[{"name": "GeneralPredicates"}, custom]).faults == ()


@pytest.mark.parametrize("text", ['{"kind": "Policy", "apiVersion": "v1", "extenders": [], "extenders": []}'])
def test_a_policy_with_keys_given_twice_is_refused(text):
    assert "extenders: given twice" in judge(text, source="x").faults


def test_a_config_map_is_judged_by_what_it_holds():
    inner = json.dumps({"kind": "Policy", "apiVersion": "v1", "priorities": []})
    outer = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.cfg": inner}}
    assert judge(yaml.safe_dump(outer), source="x").kind == "Policy"


# ---------------------------------------------------------------- our own configuration, and other texts


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("server: {listen: '0.0.0.0:8888'}", "server.listen"),
        ("server: {listen: 'gpu-node:8888'}", "server.listen"),
        ("server: {keep_alive_seconds: 90}", "server.keep_alive_seconds"),
        ("server: {max_body_bytes: 16777216}", "server.max_body_bytes"),
        ("server: {tls: {cert_file: /a, key_file: /b, client_ca_file: /c}}", "server.tls.client_ca_file"),
        ("verbs: {bind: true}", "verbs.bind"),
        ("verbs: {counts: own}", "verbs.counts"),
    ],
)
def test_our_own_settings_that_surprise_are_told(text, path):
    verdict = judge(text, source="x")
    assert verdict.ok
    assert [words.split(": ")[0] for words in verdict.consequences] == [path]


@pytest.mark.parametrize("text", ["", "server: {listen: '[::1]:8888'}", "server: {listen: 'localhost:1'}"])
def test_our_defaults_need_no_words(text):
    verdict = judge(text, source="x")
    assert (verdict.kind, verdict.faults, verdict.consequences) == ("gpu-extender", (), ())


def test_our_own_faults_are_all_told():
    verdict = judge("server: {thread: 2}\nscoring: {policy: x}", source="x", known_policies={"hole-aware"})
    assert verdict.faults == (
        "server.thread: unknown key; did you mean threads?",
        "scoring.policy: must be one of hole-aware, got 'x'",
    )


@pytest.mark.parametrize(
    ("text", "kind", "fault"),
    [
        ("{", "unknown", "file: not readable as YAML: "),
        ("- a", "unknown", "file: must be a mapping"),
        ("kind: Pod", "unknown", "kind: must be Policy or KubeSchedulerConfiguration, got 'Pod'"),
        ("extenders: []", "unknown", "kind: must be Policy or KubeSchedulerConfiguration, got None"),
    ],
)
def test_other_texts_are_one_fault(text, kind, fault):
    verdict = judge(text, source="x")
    assert verdict.kind == kind
    (only,) = verdict.faults
    assert only.startswith(fault)


def test_a_resource_that_is_nearly_one_of_gpus_is_doubted():
    path = "extenders[0].managedResources[0].name"
    doubted = registered(managedResources=[{"name": "nvidia.com/gpus"}])
    assert "pods that ask for nvidia.com/gpu are not sent" in said(doubted, path)
    assert any(line.startswith(path) for line in doubted.warnings)
    for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/fpga"):
        assert not any(line.startswith(path) for line in registered(managedResources=[{"name": name}]).consequences)


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_a_verdict_fits_the_terminal(columns):
    text = render_verdict(registered(), columns)
    assert max(map(len, text.splitlines())) <= min(columns, 100)


def test_a_verdict_is_readable():
    text = render_verdict(registered(weight=0))
    assert text.startswith("test: KubeSchedulerConfiguration, 1 fault\n\nFaults\n  - extenders[0].weight: must be")
    assert "\nConsequences\n" in text
    assert max(map(len, text.splitlines())) <= 100


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    [*OURS, "extenders", "profiles", "plugins", "score", "enabled", "tlsConfig", "name", "predicates", "priorities"]
)
shaped = st.dictionaries(keys, json_values | st.lists(st.dictionaries(keys, json_values, max_size=4), max_size=2))


@given(kind=st.sampled_from(["Policy", "KubeSchedulerConfiguration", "ConfigMap"]) | json_values, value=shaped)
def test_whatever_the_text_a_verdict_comes_out(kind, value):
    text = json.dumps({"apiVersion": V1, **value, "kind": kind})
    verdict = judge(text, source="x")
    assert all(": " in sentence for sentence in (*verdict.faults, *verdict.consequences))


@given(text=st.text())
def test_any_text_gets_a_verdict(text):
    assert judge(text, source="x").source == "x"


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:8888/scheduler", "http://gpu-extender.kube-system.svc/"])
def test_a_verb_that_we_do_not_answer_is_a_fault_of_our_registration(verb, url):
    verdict = registered(urlPrefix=url, **{f"{verb}Verb": "Predicates"})
    path = f"extenders[0].{verb}Verb: "
    assert f"every call is a 404. Write {verb}Verb: {verb}." in next(f for f in verdict.faults if f.startswith(path))
    assert registered(urlPrefix=url, **{f"{verb}Verb": f"scheduler/{verb}/"}).ok


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1", "v1beta2"])
def test_a_file_beside_a_policy_registers_nobody(version):
    words = said(component(apiVersion=f"kubescheduler.config.k8s.io/{version}"), "extenders")
    assert "as it should be where a Policy beside this file does it (--policy-config-file" in words
    assert "Policy" not in said(component(apiVersion="kubescheduler.config.k8s.io/v1beta3"), "extenders")


HUGE = ["9" * 5000, "0x" + "f" * 5000, "1" + ":59" * 3000, "9" * 50]


@pytest.mark.parametrize("number", HUGE, ids=["decimal", "hexadecimal", "sexagesimal", "beyond-64-bits"])
@pytest.mark.parametrize("key", ["weight", "httpTimeout", "nodeCacheCapable", "managedResources"])
def test_a_huge_number_is_a_fault_in_one_short_line(key, number):
    text = yaml.safe_dump(
        {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", "extenders": [{**OURS, key: "HERE"}]}
    )
    verdict = judge(text.replace("HERE", number), source="x")
    (fault,) = [fault for fault in verdict.faults if fault.startswith(f"extenders[0].{key}: ")]
    assert len(fault) < 400


@pytest.mark.parametrize("number", HUGE, ids=["decimal", "hexadecimal", "sexagesimal", "beyond-64-bits"])
@pytest.mark.parametrize("key", ["parallelism", "percentageOfNodesToScore"])
def test_a_huge_number_outside_of_extenders(key, number):
    text = f"apiVersion: {V1}\nkind: KubeSchedulerConfiguration\n{key}: {number}\n? {number}\n: 1\n"
    faults = judge(text, source="x").faults
    assert [fault.partition(": ")[0][:12] for fault in faults] == [number[:12], key[:12]]
    assert all(len(fault) < 600 for fault in faults)


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 400, "1e400", "-1e400"])
def test_a_huge_number_in_a_policy_in_json(digits):
    text = json.dumps({"apiVersion": "v1", "kind": "Policy", "predicates": [], "priorities": [], "extenders": [OURS]})
    text = text.replace('"2s"', digits).replace("130", digits)
    faults = judge(text, source="x").faults
    assert [fault.partition(": ")[0] for fault in faults] == ["extenders[0].weight", "extenders[0].httpTimeout"]
    assert all(len(fault) < 400 for fault in faults)


@pytest.mark.parametrize("text", ["9" * 5000 + "s", "1" * 5000, "9" * 99 + "h", "1h" * 51, "2562048h"])
def test_a_duration_that_go_cannot_hold_is_none(text):
    assert duration_seconds(text) is None


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 500))


@pytest.mark.parametrize("head", ["", f"apiVersion: {V1}\nkind: KubeSchedulerConfiguration\nparallelism: *a11\n"])
@pytest.mark.parametrize("bomb", [BOMB, MERGES])
def test_aliases_that_stand_for_billions_are_one_fault(head, bomb):
    lines = head.splitlines()
    verdict = judge("\n".join([*lines[:2], bomb, *lines[2:]]), source="x")
    assert verdict.faults == ("file: its aliases stand for far more than is written",)


def test_a_chain_of_aliases_is_deep():
    assert judge(CHAIN, source="x").faults == ("file: nested more than 100 deep",)


def test_a_very_deep_text_is_one_fault():
    for text in ("[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "{a: " * 300 + "1" + "}" * 300):
        (fault,) = judge(text, source="x").faults
        assert fault.startswith("file: ")


def test_many_keys_take_no_time():
    twice = "{" + ", ".join(f'"k{n}": 1' for n in range(50_000)) + ', "k7": 2}'
    assert "k7: given twice" in judge(twice, source="x").faults


@pytest.mark.parametrize(
    ("verdict", "path"),
    [
        (policy({"ignorabel": True}), "extenders[0].ignorabel"),
        (registered(enableHTTPS=True), "extenders[0].enableHTTPS"),
        (registered(prioritizeVerb=None), "extenders[0].weight"),
        (registered(httpTimeout="1ms"), "extenders[0].httpTimeout"),
        (registered(tlsConfig={"certFile": "a"}), "extenders[0].tlsConfig"),
    ],
)
def test_what_can_hardly_be_meant_is_a_warning_among_the_consequences(verdict, path):
    assert [text.partition(": ")[0] for text in verdict.warnings] == [path]
    assert set(verdict.warnings) < set(verdict.consequences)
    assert registered().warnings == ()
