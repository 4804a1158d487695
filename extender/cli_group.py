"""What holds for every command: no option is dropped unsaid, and it ends quietly when nobody reads any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from extender import terminal
from extender.errors import InputError


class Commands(click.Group):
    """A group of commands; each ends quietly when whoever reads its output has seen enough."""

    group_class = type  # groups in it are as it is

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - click's signature
        """Read the command line; `--help` is answered here."""
        with terminal.until_nobody_reads():
            return super().make_context(*args, **kwargs)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, and refuse options of which it would take the last alone."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _refuse_repeated(command, rest, click.Context(command, ctx, name, resilient_parsing=ctx.resilient_parsing))
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Run the command."""
        with terminal.until_nobody_reads():
            return super().invoke(ctx)


def _refuse_repeated(command: click.Command, arguments: Sequence[str], context: click.Context) -> None:
    """Refuse an option that is given more than once though its command takes one.

    Raises:
        InputError: names the option.
    """
    _, _, order = command.make_parser(context).parse_args([*arguments])
    for parameter, times in Counter(order).items():
        if isinstance(parameter, click.Option) and times > 1 and not (parameter.multiple or parameter.is_flag):
            raise InputError(f"{parameter.opts[0]}: given {times} times; {command.name} takes one")
