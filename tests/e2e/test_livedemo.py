"""`make demo-live` plays to its end, and says in one line what it misses."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from controlplane import livedemo
from extender.docs import ROOT


@pytest.mark.e2e
@pytest.mark.slow
def test_the_demo_plays_on_a_real_control_plane(plane):
    output = io.StringIO()
    livedemo.run(120, Console(file=output, width=80))
    said = output.getvalue()
    assert "220 GPU nodes, 1420 GPUs of 5 models, 143 of them busy; 120 pods arrive." in said
    assert said.count("120/120") == 3
    (allocated,) = [line.split()[-3:] for line in said.splitlines() if "GPUs allocated" in line]
    # So few pods fit somewhere however they are placed.
    assert len(set(allocated)) == 1
    stranded = next(line.split()[-3:] for line in said.splitlines() if "8-GPU" in line and "stranded" in line)
    assert int(stranded[2]) < int(stranded[0])


def test_without_programs_and_go_one_line_says_so(tmp_path):
    env = {"PATH": str(tmp_path), "CONTROLPLANE_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.livedemo"], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no Go on the path, and Kubernetes 1.37 has to be built")
    assert done.stderr.count("\n") == 1
