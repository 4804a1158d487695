"""Generated pages say what the code says."""

import re

import pytest

from extender.cli import cli
from extender.docs import ROOT, generated_pages, write_pages
from extender.docs_cli import render_cli


@pytest.mark.parametrize("path", generated_pages())
def test_a_generated_page_is_up_to_date(path):
    page = (ROOT / path).read_text(encoding="utf-8")
    assert page == generated_pages()[path](), "run `python -m extender.docs`"


def test_all_pages_are_written(tmp_path):
    write_pages(tmp_path)
    assert all((tmp_path / path).is_file() for path in generated_pages())


def test_the_page_names_the_commands_that_ask_a_cluster():
    asking = {name for name, command in cli.commands.items() if any(p.name == "kubeconfig" for p in command.params)}
    (exceptions,) = re.findall(r"Every command but (.*?) reads", " ".join(render_cli().split()))
    assert set(re.findall(r"`(\w+)`", exceptions)) == asking
