"""The reports of `defrag` and `buy` as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from extender.buy_report import BuyReport, BuyRow, OptionRow, RunningRow
from extender.defrag_reasons import VetoRow
from extender.defrag_report import DefragReport
from extender.layout import IfItFits, hanging
from extender.packing.plan import Status
from extender.tables import node_by_node, plain_table, warning_lines

_VETOES: Final = 20


# ---------------------------------------------------------------- defrag


def render_defrag(report: DefragReport) -> RenderableType:
    """Return the answer of `defrag`: the steps in order, what they cost, how far that is proved."""
    if not report["possible"]:
        reason = Text(report["reason"] or "", style="red")
        return Group(reason, *_who_must_stay(report["vetoes"]), *warning_lines(report["warnings"]))
    if not report["moves"]:
        return Group(Text(f"{report['node']} has the room already.", style="green"), *warning_lines(report["warnings"]))
    table = plain_table("STEP", "POD", "GPUS", "FROM", "TO", "GPU-HOURS AT STAKE")
    for row in report["moves"]:
        numbers = (str(row["step"]), row["pod"], str(row["gpus"]))
        table.add_row(*numbers, row["from"], row["to"], f"{row['gpu_hours']:g}")
    return Group(table, Text(_outcome(report)), Text(_next(report)), *warning_lines(report["warnings"]))


def _who_must_stay(rows: Sequence[VetoRow]) -> Iterator[RenderableType]:
    if not rows:
        return
    table = plain_table("POD", "NODE", "MUST STAY")
    for row in rows[:_VETOES]:
        table.add_row(row["pod"], row["node"], row["reason"])
    yield table
    if len(rows) > _VETOES:
        yield Text(f"and {len(rows) - _VETOES} more; -o json lists all")


def _outcome(report: DefragReport) -> str:
    count = len(report["moves"])
    moves = f"{count} moves" if count > 1 else "1 move"
    less = "fewer moves" if report["goal"] == "moves" else "less at stake"
    proof = f"proved: no plan has {less}"
    if report["status"] != Status.OPTIMAL:
        proof = f"not proved: the least {report['goal']} are {report['bound']:g} or more"
    return f"Room on {report['node']} after {moves}, with {report['cost']:g} weighed GPU-hours at stake ({proof})."


def _next(report: DefragReport) -> str:
    return (
        f"Next: cordon {report['node']}; evict the pods in this order, the next one when the successor of the one "
        f"before runs; then uncordon {report['node']} (docs/defrag.md)."
    )


# ---------------------------------------------------------------- buy


def render_buy(report: BuyReport, finding_out: str = "") -> RenderableType:
    """Return the answer of `buy`: what to buy, the same with one type alone, and who stays out.

    `finding_out` is the command that says node by node why a pod does, "" for none.
    """
    table = plain_table("BUY", "TYPE", "MODEL", "GPUS", "LIKE")
    for row in report["buy"]:
        table.add_row(str(row["nodes"]), row["type"], row["model"] or "unknown", str(row["gpus"]), row["like"])
    options = plain_table("OF ONE TYPE ALONE", "TYPE", "MODEL", "GPUS", "LIKE")
    for option in report["options"]:
        words = (_enough(option), option["type"], option["model"] or "unknown")
        options.add_row(*words, str(option["gpus"]), option["like"])
    out = [Text(f"{row['pod']} stays out: {row['reason']}", style="red") for row in report["unplaced"]]
    parts: list[RenderableType] = [IfItFits(table, lambda: _to_buy(report["buy"]))] if report["buy"] else []
    parts += [Text(_nodes_to_buy(report)), *out, *(node_by_node(finding_out) if out else ())]
    parts += [options] if len(report["options"]) > 1 and report["buy"] else []
    return Group(*parts, Text(_running(report["min_nodes_for_running"])), *warning_lines(report["warnings"]))


def _enough(option: OptionRow) -> str:
    proved = option["status"] == Status.OPTIMAL
    if option["nodes"] is None:
        return "not enough" if proved else "none found"
    return str(option["nodes"]) if proved else f"{option['nodes']} or fewer"


def _to_buy(rows: Iterable[BuyRow]) -> RenderableType:
    """Return the table in words, for narrow terminals; the type has model and GPUs in it, or is their usual name."""
    return Group(*(hanging(f"buy {row['nodes']}  ", f"{row['type']}, like {row['like']}") for row in rows))


def _nodes_to_buy(report: BuyReport) -> str:
    if not report["nodes"]:
        return "No node that could be bought helps." if report["unplaced"] else "No node has to be bought."
    proved = (
        "proved: fewer do not do" if report["status"] == Status.OPTIMAL else f"not proved: at least {report['bound']}"
    )
    return f"Nodes to buy: {report['nodes']} ({proved})."


def _running(row: RunningRow) -> str:
    where = "1 node" if row["in_use"] == 1 else f"{row['in_use']} nodes"
    if row["nodes"] is None:
        return f"The GPU pods that run are on {where}."
    proved = "" if row["status"] == Status.OPTIMAL else f" (not proved: at least {row['bound']})"
    return f"The GPU pods that run are on {where}; packed anew they would fit on {row['nodes']}{proved}."
