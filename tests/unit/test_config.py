"""The configuration: defaults, layers, and every fault at once with its path."""

from pathlib import Path

import pytest

from extender.config import Config, check_document, field_paths, load_config, split_address
from extender.errors import ConfigError, ExtenderError, InputError
from extender.packing import gpu_labels

KNOWN = frozenset({"planned", "hole-aware", "best-fit"})


@pytest.fixture
def load(tmp_path):
    """Return a loader of YAML text, environment and flags."""

    def loader(text=None, *, env=None, flags=None) -> Config:
        path = None
        if text is not None:
            path = tmp_path / "config.yaml"
            path.write_text(text, encoding="utf-8")
        return load_config(path, env=env or {}, overrides=flags or {}, known_policies=KNOWN)

    return loader


@pytest.fixture
def faults(load):
    """Return a loader that gives the faults instead."""

    def loader(text=None, **layers) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as caught:
            load(text, **layers)
        return caught.value.faults

    return loader


def test_without_any_source_every_field_has_its_default(load):
    config = load()
    assert config == Config()
    assert config.server.listen == "127.0.0.1:8888"
    assert config.server.keep_alive_seconds > 90  # the Go client closes first
    assert config.server.max_body_bytes >= 100 * 10**6  # 5,000 full nodes
    assert config.gpus.model_labels[0] == "nvidia.com/gpu.product"
    assert config.scoring.parameters.model_dump() == {
        "fragmentation_weight": 1.0,
        "guard_weight": 4.0,
        "large_node_weight": 1.0,
        "cpu_ratio_weight": 0.1,
        "ladder_weight": 10.0,
        "preference_weight": 10.0,
        "quota_weight": 3.0,
        "cpu_quota_weight": 1.0,
        "type_rank_weight": 0.05,
    }


def test_default_resources_are_those_of_the_contract():
    assert gpu_labels.GPU_RESOURCES == (
        "nvidia.com/gpu",
        "alpha.kubernetes.io/nvidia-gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "nvidia.com/mig-*",
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "server:\n  # threads: 8\n"])
def test_an_empty_file_or_section_sets_nothing(load, text):
    assert load(text) == Config()


def test_environment_beats_the_file_and_flags_beat_both(load):
    config = load(
        "server: {threads: 2, keep_alive_seconds: 100}\nlogging: {level: error}",
        env={"GPU_EXTENDER_SERVER__THREADS": "3", "GPU_EXTENDER_LOGGING__LEVEL": "warning"},
        flags={"server.threads": 4},
    )
    assert (config.server.threads, config.server.keep_alive_seconds) == (4, 100)
    assert config.logging.level == "warning"


def test_what_kubernetes_says_of_a_service_of_our_name_is_no_setting(load):
    link = {
        "SERVICE_HOST": "10.0.0.7",
        "SERVICE_PORT": "8888",
        "SERVICE_PORT_METRICS": "8889",
        "PORT": "tcp://10.0.0.7",
    }
    link |= {
        "PORT_8888_TCP": "tcp://10.0.0.7:8888",
        "PORT_8888_TCP_ADDR": "10.0.0.7",
        "METRICS_SERVICE_HOST": "10.0.0.8",
    }
    assert load(env={f"GPU_EXTENDER_{name}": value for name, value in link.items()}) == load()
    with pytest.raises(ConfigError, match="GPU_EXTENDER_SERVER__PORT: unknown variable"):
        load(env={"GPU_EXTENDER_SERVER__PORT": "1"})


def test_an_alias_stands_for_what_it_names(load):
    assert load("gpus: {resources: &a [x/y], shared_resources: *a}").gpus.shared_resources == ("x/y",)


def test_a_flag_that_was_not_given_changes_nothing(load):
    assert load("server: {threads: 2}", flags={"server.threads": None}).server.threads == 2


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("GPU_EXTENDER_SERVER__LISTEN", "[::1]:8888", "server.listen", "[::1]:8888"),
        ("GPU_EXTENDER_GPUS__TYPE_RANK", "[Tesla-T4, H100]", "gpus.type_rank", ("Tesla-T4", "H100")),
        ("GPU_EXTENDER_VERBS__COUNTS", "null", "verbs.counts", None),
        ("GPU_EXTENDER_VERBS__COUNTS", "own", "verbs.counts", "own"),
        ("GPU_EXTENDER_VERBS__BIND", "true", "verbs.bind", True),
        ("GPU_EXTENDER_SCORING__PARAMETERS__GUARD_WEIGHT", "2", "scoring.parameters.guard_weight", 2.0),
    ],
)
def test_a_variable_is_read_as_yaml(load, name, value, path, expected):
    found = load(env={name: value})
    for step in path.split("."):
        found = getattr(found, step)
    assert found == expected


def test_a_path_may_come_as_path_or_text(load):
    tls = {"server.tls.cert_file": Path("/a.crt"), "server.tls.key_file": "/a.key"}
    assert load(flags=tls).server.tls.cert_file == Path("/a.crt")


def test_foreign_and_reserved_variables_are_left_alone(load):
    assert load(env={"HOME": "/root", "GPU_EXTENDER_CI": "1", "GPU_EXTENDER_CLUSTER": "x"}) == Config()


def test_the_environment_may_name_the_file_and_a_path_given_comes_first(load, tmp_path):
    named = tmp_path / "named.yaml"
    named.write_text("server: {threads: 3}\n", encoding="utf-8")
    env = {"GPU_EXTENDER_CONFIG": str(named)}
    assert load(env=env).server.threads == 3
    assert load("server: {threads: 5}\n", env=env).server.threads == 5
    assert load(env={"GPU_EXTENDER_CONFIG": ""}) == Config()


def test_all_faults_of_all_sources_are_reported_at_once(faults):
    found = faults(
        "server: {threads: '8', thread: 3}\nscoring: {policy: hole-awar, weight: 3}\nverb: {}\n",
        env={"GPU_EXTENDER_SERVER__LISTN": "x", "GPU_EXTENDER_VERBS__BIND": "1"},
        flags={"server.lister": "x"},
    )
    assert found == (
        "GPU_EXTENDER_SERVER__LISTN: unknown variable; did you mean GPU_EXTENDER_SERVER__LISTEN?",
        "server.lister: unknown field; did you mean server.listen?",
        "server.threads: input should be a valid integer, got '8'",
        "server.thread: unknown key; did you mean threads?",
        "verbs.bind: input should be a valid boolean, got 1 (from GPU_EXTENDER_VERBS__BIND)",
        "scoring.policy: must be one of best-fit, hole-aware, planned, got 'hole-awar'",
        "scoring.weight: unknown key",
        "verb: unknown key; did you mean verbs?",
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("server: {threads: 8.0}", "server.threads: "),
        ("server: {threads: true}", "server.threads: "),
        ("server: {threads: 0}", "server.threads: "),
        ("server: {listen: 8888}", "server.listen: "),
        ("server: {listen: ':8888'}", "server.listen: must be host:port"),
        ("server: {listen: '::1:8888'}", "server.listen: must be host:port"),
        ("server: {listen: 'localhost:70000'}", "server.listen: must be host:port"),
        ("server: {operators_listen: '127.0.0.1:8888'}", "server: operators_listen is the same as listen"),
        ("server: {tls: {cert_file: /a}}", "server.tls: cert_file and key_file go together"),
        ("server: {tls: {client_ca_file: /a}}", "server.tls: client_ca_file needs cert_file"),
        ("verbs: {bind: 'yes'}", "verbs.bind: "),
        ("verbs: {counts: both}", "verbs.counts: "),
        ("verbs: {tentative_seconds: -1}", "verbs.tentative_seconds: "),
        ("verbs: {tentative_seconds: .inf}", "verbs.tentative_seconds: "),
        ("gpus: {resources: nvidia.com/gpu}", "gpus.resources: "),
        ("gpus: {resources: [a/b, 3]}", "gpus.resources[1]: "),
        ("gpus: {resources: [a/b, '']}", "gpus.resources[1]: "),
        ("gpus: {type_rank: [T4, T4]}", "gpus.type_rank: given twice: T4"),
        ("scoring: {parameters: {guard_weight: .nan}}", "scoring.parameters.guard_weight: "),
        ("logging: 5", "logging: "),
        ("[a, b]", "file: must be a mapping of sections"),
        ("server: {threads: [", "file: not readable as YAML: line 1, column"),
        ("server: {threads: 2}\n---\nserver: {}\n", "file: not readable as YAML: line 2"),
        ("server: {threads: 2}\nserver: {}\n", "server: given twice (lines 1 and 2)"),
        ("server:\n  threads: 2\n  threads: 3\n", "server.threads: given twice (lines 2 and 3)"),
        ('{"server": {"threads": 2, "threads": 3}}', "threads: given twice"),
        ("1: {}", "1: unknown key"),
        ("? !!binary aGk=\n: {}", "b'hi': unknown key"),
        ("server: {threads: !!binary aGk=}", "server.threads: "),
        ("server: {threads: 2024-01-01}", "server.threads: input should be a valid integer, got '2024-01-01'"),
        ("server: &a {tls: *a}", "file: not readable as YAML: line 1, column 9: an alias stands inside what it names"),
        ("server: {threads: !!bool x}", "file: not readable as YAML"),
    ],
)
def test_each_fault_has_its_path(faults, text, fault):
    (found,) = faults(text)
    assert found.startswith(fault)


def test_a_file_that_cannot_be_read_is_one_fault(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml", env={}, overrides={}, known_policies=KNOWN)


def test_a_default_policy_that_does_not_exist_is_a_fault():
    with pytest.raises(ConfigError, match=r"scoring\.policy: must be one of"):
        load_config(None, env={}, overrides={}, known_policies={"best-fit"})


def test_check_document_accepts_any_policy_when_none_are_known():
    config, faults = check_document({"scoring": {"policy": "mine"}}, known_policies=None)
    assert not faults
    assert config is not None
    assert config.scoring.policy == "mine"


def test_the_configuration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Config().server.threads = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:8888", ("127.0.0.1", 8888)),
        ("[::1]:8888", ("::1", 8888)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_an_address_is_host_and_port(address, expected):
    assert split_address(address) == expected


@pytest.mark.parametrize(
    "address", ["127.0.0.1:\u0663", "127.0.0.1:+3", "127.0.0.1: 3", "127.0.0.1:65536", ":8888", "a:"]
)
def test_a_port_is_plain_digits_and_a_host_is_needed(address):
    with pytest.raises(ValueError, match="must be host:port"):
        split_address(address)


def test_every_field_is_described():
    def undescribed(model, path=""):
        for name, field in model.model_fields.items():
            if not field.description:
                yield path + name
            if hasattr(field.annotation, "model_fields"):
                yield from undescribed(field.annotation, f"{path}{name}.")

    assert list(undescribed(Config)) == []
    assert "server.tls.cert_file" in list(field_paths())


def test_a_config_error_is_the_callers_fault():
    error = ConfigError(["a: b", "c: d"], source="x.yaml")
    assert isinstance(error, InputError)
    assert (str(error), error.exit_code, ExtenderError.exit_code) == ("x.yaml: a: b; c: d", 2, 3)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "!!int 0x" + "f" * 5000])
def test_a_huge_number_is_one_short_fault(load, number):
    for arguments in ({"env": {"GPU_EXTENDER_SERVER__THREADS": number}}, {"text": f"server: {{threads: {number}}}"}):
        with pytest.raises(ConfigError) as caught:
            load(**arguments)
        (fault,) = caught.value.faults
        assert len(fault) < 300


def test_half_a_character_is_named_with_its_field(load):
    with pytest.raises(ConfigError) as caught:
        load('{"server": {"listen": "x\\ud800", "tls": {"cert_file": "a\\u0000b", "key_file": "k"}}, "k\\ud800": 1}')
    words = "holds what no text can hold: a NUL, or half a character"
    assert {f"server.listen: {words}", f"server.tls.cert_file: {words}"} < set(caught.value.faults)


def test_of_very_many_faults_the_first_are_shown(load):
    with pytest.raises(ConfigError) as caught:
        load("\n".join(f"key{number}: 1" for number in range(1000)))
    assert len(caught.value.faults) == 1000
    assert str(caught.value).endswith("; and 980 more faults")
