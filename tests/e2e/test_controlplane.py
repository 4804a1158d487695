"""Where the programs come from: found where it is said, built once, and what is missing is one clear line."""

import os
import re
import subprocess
import sys

import pytest

from controlplane import build, releases

OLD = releases.release("1.22")
GO = """#!/bin/sh
case "$1" in
env) echo go1.99.9 ;;
build)
    sleep 0.3
    for last; do :; done
    echo "$last" >> "{log}"
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\n' > "$2" && chmod +x "$2" ;;
esac
"""


def program(path, version="v1.22.17"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("CONTROLPLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("release", releases.RELEASES, ids=lambda release: release.minor)
def test_the_modules_are_those_of_the_releases(release):
    text = (release.module / "go.mod").read_text()
    assert f"\tk8s.io/kubernetes {release.kubernetes} // indirect\n" in text
    assert f"\tk8s.io/api => k8s.io/api {release.staging_version}\n" in text
    tools = re.search(r"^tool(?: \(([^)]*)\)| (.*))$", text, re.MULTILINE)
    assert tools is not None
    assert set((tools[1] or tools[2]).split()) == {releases.PACKAGES[name] for name in release.programs}
    if release.etcd:
        assert f"\tgo.etcd.io/etcd/server/v3 {release.etcd} // indirect\n" in text


def test_the_cache_is_looked_into_whatever_go_built_it(cache):
    path = program(cache / "v1.22.17-go1.20" / "kube-scheduler")
    assert build.programs(OLD) == {"kube-scheduler": path}


def test_assets_come_first_if_the_version_is_right(cache, tmp_path, monkeypatch):
    cached = program(cache / "v1.22.17-go1.20" / "kube-scheduler")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert build.find(OLD, "kube-scheduler") == cached
    other = program(tmp_path / "assets" / "kube-scheduler", "v1.37.0")
    assert build.find(OLD, "kube-scheduler") == cached
    program(other, "v1.22.1")
    assert build.find(OLD, "kube-scheduler") == other


def test_what_is_missing_is_one_line_with_the_remedy(cache):
    with pytest.raises(build.MissingProgramError) as caught:
        build.programs(releases.NEWEST)
    line = str(caught.value)
    assert "\n" not in line
    for words in ("kube-scheduler", "kube-apiserver", "etcd", "1.37", str(cache), "`make controlplane`"):
        assert words in line


def test_without_go_nothing_is_built_and_it_is_said(cache, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.setattr(sys, "argv", ["build", "1.22"])
    assert build.main() == 1
    assert capsys.readouterr().err == "no Go on the path, and Kubernetes 1.22 has to be built: https://go.dev/dl/\n"


def test_two_builds_at_once_build_each_program_once(cache, tmp_path):
    log = tmp_path / "built"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(GO.format(log=log))
    (tmp_path / "bin" / "go").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "controlplane.build", "1.37", "1.22"]
    builds = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in builds]
    assert [process.returncode for process in builds] == [0, 0]
    packages = [releases.PACKAGES[name] for name in ("kube-scheduler", "kube-apiserver", "etcd", "kube-scheduler")]
    assert log.read_text().split() == packages
    assert sum(text.count(" MB in ") for text in said) == 4
    assert {path.name for path in cache.iterdir()} == {"v1.37.2-go1.99.9", "v1.22.17-go1.99.9"}
    # A third finds everything.
    third = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert third.stderr.count("\n") == 2
    assert "building" not in third.stderr
