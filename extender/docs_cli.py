"""Renders `docs/cli.md` from the tree of click commands; `extender.docs` registers it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import click

from extender.cli import cli

_NAME: Final = "gpu-extender"

_INTRODUCTION: Final = """\
# Command line

`gpu-extender COMMAND` after an installation, `python -m extender COMMAND` from a clone. Every command but `serve` reads
files, or makes its input up (`demo`, `synthetic`), and prints; no cluster is asked. `serve` follows a live cluster,
unless `--cluster` or `--demo` gives it another one: it lists and watches nodes and pods, and with `verbs.bind` it binds
pods. `demo` asks a service that it starts on 127.0.0.1.

- `--cluster` and `--arrivals` take what `kubectl get nodes,pods -A -o json` or `-o yaml` prints: a List, single objects
  or several documents.
- `-o json` is the stable form for programs, the table is for people. Warnings of a report are in its `warnings`;
  notes are on standard error.
- Configuration: a flag beats the environment, the environment beats `--config FILE`
  ([configuration.md](configuration.md)).

| exit code | meaning |
|---|---|
| 0 | done; every pod asked about fits, no fault was found |
| 1 | no: a pod does not fit, was refused, or a file has faults |
| 2 | the input cannot be used; one line on standard error names file, item and field |
| 3 | trouble of the program or its surroundings |
"""


def render_cli() -> str:
    """Return the reference of every command as Markdown."""
    context = click.Context(cli, info_name=_NAME)
    return "\n".join([_INTRODUCTION, *_commands(cli, context)])


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield a section for each command of a group, in the order of their names; groups are only a part of names."""
    for name in group.list_commands(context):
        command = group.commands[name]
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        elif not command.hidden:
            yield _section(command, inner)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = [f"## {context.command_path}", "", *_paragraphs(command.help or ""), "```", usage, "```", ""]
    return "\n".join([*lines, *_options(command, context), ""])


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        yield " ".join(paragraph.split())
        yield ""


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        names, words = parameter.get_help_record(context) or ("", "")
        if words and "--help" not in parameter.opts:
            yield f"- `{names}`: {_sentence(words)}"


def _sentence(words: str) -> str:
    """Return click's help text with its remark in brackets as a sentence: `Text.  [default: 5]`."""
    text, bracket, remark = " ".join(words.split()).partition(" [")
    return f"{text} {remark.removesuffix(']').capitalize()}." if bracket else text
