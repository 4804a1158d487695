"""`docs/kubernetes-1.6.md` is true: every command on it is run, and prints what the page shows."""

from __future__ import annotations

import pytest

from tests.consolepage import ROOT, check_page, steps_of

PAGE = ROOT / "docs" / "kubernetes-1.6.md"
DATA = ROOT / "docs" / "kubernetes-1.6"


@pytest.mark.integration
@pytest.mark.slow
def test_every_command_prints_what_the_page_shows(tmp_path):
    check_page(PAGE, tmp_path)


def test_every_scene_is_played():
    commands = [step.command for step in steps_of(PAGE)]
    for scene in ("gpus", "fit", "config check", "serve"):
        assert any(f"gpu-extender {scene} " in command for command in commands), scene
    assert any("/scheduler/v1/filter" in command for command in commands)


def test_every_data_file_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert [path.name for path in DATA.iterdir() if f"kubernetes-1.6/{path.name}" not in page] == []
