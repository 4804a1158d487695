"""README.md is true: its console blocks are run, its targets and links exist. The other pages' links, too."""

from __future__ import annotations

import re
import runpy
import textwrap
import tomllib
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import yaml

from extender.config import field_paths
from extender.packing.framework import run_score
from extender.packing.snapshot import Snapshot
from tests.builders import node, pod
from tests.consolepage import MAKE, ROOT, check_page, differs, renewed, steps_of

README: Final = ROOT / "README.md"
ARCHITECTURE: Final = ROOT / "ARCHITECTURE.md"
PAGES: Final = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
# Files that are no part of their own: the policies have a page, and a package that only holds modules says nothing.
_NO_PART: Final = re.compile(r"^__|^packing/policies/|^(kube|packing)/__init__")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.integration
@pytest.mark.slow
def test_every_command_prints_what_the_page_shows(tmp_path):
    check_page(README, tmp_path)


def test_the_targets_named_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {target for page in PAGES for target in re.findall(r"\bmake ([a-z-]+)", _code(ROOT / page))}
    assert {"demo", "test"} <= named
    assert sorted(target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)) == []


@pytest.mark.parametrize(("target", "command"), MAKE.items())
def test_a_target_runs_what_stands_in_for_it(target, command):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = command.replace("gpu-extender", "$(PY) -m extender")
    assert re.search(rf"^{target.removeprefix('make ')}:.*\n\t@{re.escape(recipe)}$", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    lost = [link for link in _LINK.findall(path.read_text(encoding="utf-8")) if not _leads_somewhere(path, link)]
    assert lost == []


def test_the_architecture_names_every_module_and_no_other():
    named = {name for line in _lines(ARCHITECTURE) for name in re.findall(r"^\| `([\w/]+\.py)` \|", line)}
    folder = ROOT / "extender"
    modules = [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")]
    expected = {name.removeprefix("packing/") for name in modules if not _NO_PART.search(name)}
    assert named == expected


def test_the_tests_that_the_architecture_names_exist():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / path).is_file(), path
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") if name else True, name


def test_the_contracts_that_the_architecture_names_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    laws = " ".join(ARCHITECTURE.read_text(encoding="utf-8").split()).partition("## Ten laws")[2]
    quoted = re.findall(r'"([^"|]+)"', laws)
    lost = [contract["name"] for contract in contracts if not any(contract["name"].startswith(q) for q in quoted)]
    assert lost == [], "contracts that the page does not name"


@pytest.mark.parametrize("page", PAGES)
def test_the_metrics_that_a_page_names_exist(page):
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    labels = {
        name: set(re.findall(r"`(\w+)`", row))
        for name, row in re.findall(r"^\| `(\w+)` \| \w+ \|(.*?)\|", metrics, re.MULTILINE)
    }
    named = re.findall(r"\b(gpu_extender_[a-z_]+[a-z])(?:\{([^}]*)\})?", (ROOT / page).read_text(encoding="utf-8"))
    stems = [(re.sub(r"_(bucket|sum|count)$", "", name), selector) for name, selector in named]
    assert sorted({name for name, _ in stems} - labels.keys()) == []
    wrong = [(name, selector) for name, selector in stems if not set(re.findall(r"(\w+)!?=", selector)) <= labels[name]]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_the_fields_that_a_page_names_exist(page):
    fields = set(field_paths())
    sections = {path.partition(".")[0] for path in fields}
    groups = {path.rpartition(".")[0] for path in fields}
    named = re.findall(r"`([a-z]+(?:\.[a-z_]+)+)(?:: [^`]*)?`", (ROOT / page).read_text(encoding="utf-8"))
    lost = {name for name in named if name.partition(".")[0] in sections and not name.endswith((".py", ".md"))}
    assert sorted(lost - fields - groups) == []


@pytest.mark.parametrize(
    ("file", "heading"),
    [("kube-scheduler-config.yaml", "## The configuration"), ("scheduler-policy.json", "## The Policy")],
)
def test_every_line_of_a_policy_file_is_explained(file, heading):
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    explained = page.partition(heading)[2].partition("\n## ")[0]
    value = yaml.safe_load((ROOT / "policy" / file).read_text(encoding="utf-8"))
    keys = {*value, *value["extenders"][0]} - {"extenders"}
    assert [key for key in sorted(keys) if not re.search(rf"[`.]{key}[`.]", explained)] == []


def test_the_example_policy_works(tmp_path):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"^   ```python\n(.*?)^   ```", page, re.DOTALL | re.MULTILINE)
    assert block is not None
    file = tmp_path / "roomiest.py"
    file.write_text(textwrap.dedent(block[1]), encoding="utf-8")
    snapshot = Snapshot.of([node("a").gpus(8).build(), node("b").gpus(8).build()], [pod("p").on("a").build()])
    policy = runpy.run_path(str(file))["Roomiest"]()
    assert run_score(policy, snapshot, pod("q").gpus(1).build(), np.arange(2)).tolist() == [0, 10]


@pytest.mark.parametrize(
    ("shown", "printed", "verdict"),
    [
        ("a  b\nc", "a b c\n", False),
        ("a b", "a b c", True),
        ("a\n...\nc", "a\nb b\nc", False),
        ("a\n...\nc", "a\nc", False),
        ("a 12 ...", "a 13 b", True),
        ("a ~1390 b", "a 1370 b", False),
        ("a ~1390 b", "a 1055 b", True),
        ("~5 ...", "6 b", False),
        ("", "", False),
        ("", "a", True),
    ],
)
def test_words_are_compared(shown, printed, verdict):
    assert differs(shown, printed) is verdict


def test_numbers_are_renewed_and_stay_below_one_another():
    shown = "GPUs     1055   9\n... 2.5 s\n"
    assert renewed(shown, "GPUs  980  12\n\nwithin 13.5 s\n") == "GPUs      980  12\n... 13.5 s\n"
    assert renewed("GPUs   ~1390\n", "GPUs  980\n") == "GPUs    ~980\n"


def test_a_block_is_split_into_commands(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ one\nx\n$ two\n```\n\n```sh\nthree\n```\n")
    assert [(step.command, step.shown) for step in steps_of(page)] == [("one", "x\n"), ("two", "")]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _code(path: Path) -> str:
    """Return what stands in code blocks and between backticks: elsewhere `make` is a word."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


def _leads_somewhere(page: Path, link: str) -> bool:
    if re.match(r"https?://", link):
        return True
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
