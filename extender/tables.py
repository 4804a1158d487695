"""The reports as tables for people. Colour is rich's business: it leaves it out where no terminal is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from extender.advice import WHICH_TO_MOVE
from extender.layout import Entry, IfItFits, hanging
from extender.packing.plan import JointPlan, Status
from extender.packing.problem import Goal
from extender.plan_report import PlanReport
from extender.printable import shortened
from extender.remarks import condensed
from extender.reports import SIZES, FitReport, FitRow, GpuRow, GpusReport, ModelRow
from extender.simulation_report import PlacementRow, SimulationReport, SimulationSummary

_LISTED: Final = 4
_LONGEST_WARNING: Final = 1000
_PODS_OF: Final = f"pods of {'/'.join(map(str, SIZES))}"
_USUAL_RESOURCE: Final = "nvidia.com/gpu"
_STYLE: Final = {"fits": "green", "busy": "yellow", "never": "red", "gated": "cyan"}


def render_gpus(report: GpusReport) -> RenderableType:
    """Return the tables of `gpus`: models first, then nodes, then warnings."""
    if not report["nodes"]:
        return Group(Text("No node has GPUs."), *warning_lines(report["warnings"]))
    models = IfItFits(
        _models(report["summary"]), lambda: Group(*chain.from_iterable(map(_model_entry, report["summary"])))
    )
    nodes = IfItFits(_nodes(report["nodes"]), lambda: Group(*chain.from_iterable(map(_node_entry, report["nodes"]))))
    return Group(models, Text(), nodes, *warning_lines(report["warnings"]))


def render_fit(report: FitReport) -> RenderableType:
    """Return the answer of `fit`: a block per pod, then warnings."""
    blocks = [_pod(row) for row in report["pods"]] or [Text("No pod is waiting for GPUs.")]
    return Group(*blocks, *warning_lines(report["warnings"]))


# ---------------------------------------------------------------- gpus


def _models(rows: Sequence[ModelRow]) -> Table:
    named = _resource_column(rows)
    table = _whole_words(plain_table("model", *named))
    for name in ("nodes", "capacity", "used", "free", "off", "withdrawn", "largest", _PODS_OF):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        numbers = (row["nodes"], row["capacity"], row["used"], row["free"], row["unschedulable"], row["withdrawn"])
        resource = [Text(row["resource"])] * len(named)
        table.add_row(Text(_model(row)), *resource, *map(str, numbers), str(row["largest_free"]), _startable(row))
    return table


def _model_entry(row: ModelRow) -> Iterator[RenderableType]:
    """Yield a row of `_models` in words; zeros of what is out of the ordinary are left out."""
    counts = {"used": row["used"], "free": row["free"]}
    counts |= {word: n for word, n in (("off", row["unschedulable"]), ("withdrawn", row["withdrawn"])) if n}
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    nodes = "1 node" if row["nodes"] == 1 else f"{row['nodes']} nodes"
    yield _named(row)
    yield hanging("  ", f"{nodes}, capacity {row['capacity']}: {listed}; largest {row['largest_free']}")
    yield hanging("  ", f"{_PODS_OF}: {_startable(row)}")


def _startable(row: ModelRow) -> str:
    return "/".join(str(row["startable"][str(size)]) for size in SIZES)


def _named(row: GpuRow | ModelRow) -> Text:
    """Return the model, and the resource where it is not the usual one."""
    resource = "" if row["resource"] == _USUAL_RESOURCE else f"  {row['resource']}"
    return Text(f"{_model(row)}{resource}", style="bold")


def _nodes(rows: Sequence[GpuRow]) -> Table:
    named = _resource_column(rows)
    table = _whole_words(plain_table("node", "model", *named))
    for name in ("capacity", "used", "free"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("pods", overflow="fold")
    for row in rows:
        numbers = (str(row["capacity"]), str(row["used"]), str(row["free"]))
        resource = [Text(row["resource"])] * len(named)
        table.add_row(Text(row["node"]), Text(_model(row)), *resource, *numbers, _state(row), _holders(row))
    return table


def _node_entry(row: GpuRow) -> Iterator[RenderableType]:
    """Yield a row of `_nodes` in words, the pods on lines of their own."""
    state = _state(row)
    words = [f"{row['used']} of {row['capacity']} used, {row['free']} free", *([state.plain] if state.plain else [])]
    yield Entry(Text(row["node"]), Text.assemble(_named(row), "  ", ", ".join(words)))
    if row["pods"]:
        yield hanging("    ", _holders(row))


def _whole_words(table: Table) -> Table:
    """Keep what is in the columns so far on one line; rich would break long names before lists of pods."""
    for column in table.columns:
        column.no_wrap = True
    return table


def _resource_column(rows: Sequence[GpuRow] | Sequence[ModelRow]) -> list[str]:
    """Return the column's name, if it says anything: in most clusters it would repeat the usual resource."""
    return [] if {row["resource"] for row in rows} == {_USUAL_RESOURCE} else ["resource"]


def _model(row: GpuRow | ModelRow) -> str:
    return (row["model"] or "unknown") + ("" if row["exclusive"] else " (shared)")


def _state(row: GpuRow) -> Text:
    words = [f"off ({row['closed']})"] if row["closed"] else []
    words += [f"{row['withdrawn']} withdrawn"] if row["withdrawn"] else []
    words += [f"{row['overcommitted']} overcommitted"] if row["overcommitted"] else []
    words += [f"{row['releasing']} releasing"] if row["releasing"] else []
    return Text(", ".join(words), style="yellow" if words else "")


def _holders(row: GpuRow) -> Text:
    return Text(_some([f"{pod['pod']}={pod['gpus']}" for pod in row["pods"]]))


# ---------------------------------------------------------------- fit


def _pod(row: FitRow) -> RenderableType:
    asked = ", ".join(_amount(name, amount) for name, amount in row["requests"].items() if amount)
    word = row["verdict"].partition(":")[0]
    lines: list[RenderableType] = [
        Entry(Text(row["pod"], style="bold"), Text(f"asks for {asked or 'nothing'}")),
        hanging("  ", row["verdict"], _STYLE.get(word, "")),
    ]
    if (group := row["group"]) is not None:
        lines.append(hanging("  ", group["verdict"], "" if group["starts"] else _STYLE["busy"]))
    if row["fits"]:
        order = " (best first)" if len(row["fits"]) > 1 else ""
        lines.append(hanging("    fits   ", f"{_some(row['fits'])}{order}"))
    lines += [hanging(f"    {kind:<6} ", line) for kind in ("busy", "never") for line in _reasons(row[kind])]
    words, which, command = (row["remedy"] or "").partition(WHICH_TO_MOVE)
    if words:
        lines.append(hanging("  ", words + which.rstrip()))
    if command:
        lines.append(Text(f"    {command}", no_wrap=True, overflow="ignore"))  # whole, to be copied
    return Group(*lines, Text())


def _amount(name: str, amount: int) -> str:
    """Return an amount of `requests_by_unit` as people write it."""
    if name == "cpu_milli":
        return f"{amount / 1000:g} cpu"
    if name == "memory_bytes":
        return f"{amount / 2**30:.4g} GiB memory"
    return f"{amount} {name}"


def _reasons(reasons: Mapping[str, str]) -> list[str]:
    """Return one line per reason, the commonest first."""
    counts = Counter(reasons.values())
    names = {text: [name for name, why in reasons.items() if why == text] for text in counts}
    return [f"{count} x {text}: {_some(names[text])}" for text, count in counts.most_common()]


# ---------------------------------------------------------------- simulate


def render_simulation(report: SimulationReport) -> RenderableType:
    """Return the report of `simulate` as a table, arrivals in order, with the totals below."""
    total = report["summary"]
    lines = [_placed(total), *_left_free(total)]
    return Group(_placements(report["placements"]), *lines, *warning_lines(report["warnings"]))


def _left_free(total: SimulationSummary) -> Iterator[str]:
    sizes = {size: gpus for size, gpus in total["stranded_gpus"].items() if gpus and int(size) <= total["largest_node"]}
    stranded = ", ".join(f"{gpus} for {size}-GPU pods" for size, gpus in sizes.items())
    yield f"{total['free_gpus']} whole GPUs left free; of these are in pieces too small: {stranded or 'none'}."
    if total["starved_gpus"]:
        lack = "of the free ones lack the CPU or memory that pods here typically ask for per GPU"
        yield f"{total['starved_gpus']} {lack}."


def _placed(total: SimulationSummary) -> str:
    pods = f"{total['placed']} of {total['arrived']} pods placed"
    return f"{pods}, {total['gpus_placed']} of {total['gpus_arrived']} GPUs asked for."


# ---------------------------------------------------------------- plan


def render_plan(report: PlanReport, plan: JointPlan, finding_out: str = "") -> RenderableType:
    """Return the report of `plan` as a table in the order of the queue, with what is proved below.

    `finding_out` is the command that says node by node why a pod has no place, "" for none.
    """
    if not report["placements"]:
        return Group(Text("No pod is waiting to be placed."), *warning_lines(report["warnings"]))
    table = _placements(report["placements"])
    pods = f"{report['placed']} of {len(report['placements'])} pods placed, {report['placed_gpus']} GPUs"
    if plan.status is Status.OPTIMAL:
        proof = "proved: no plan places more GPUs, higher priorities first"
    else:
        proof = f"proved: no plan places more than {report['bound']} (gap {plan.gap:.2%})"
    below = (*_nodes_opened(plan), *node_by_node(finding_out))
    return Group(table, f"{pods}; {proof}.", *below, *warning_lines(report["warnings"]))


def _nodes_opened(plan: JointPlan) -> Iterator[str]:
    for reached in plan.reached:
        if reached.level.goal is Goal.OPENED and (reached.value or reached.bound):
            least = "no such plan opens fewer" if reached.proven else f"at least {reached.bound} must be"
            nodes = "unused GPU node" if reached.value == 1 else "unused GPU nodes"
            yield f"{reached.value} {nodes} opened; {least}."


# ---------------------------------------------------------------- both


def _placements(rows: Iterable[PlacementRow]) -> Table:
    table = plain_table("POD", "NODE", "WHY NOT")
    for row in rows:
        node = Text(row["node"]) if row["node"] else Text("-", style="red")
        table.add_row(Text(row["pod"]), node, Text(row["reason"]))
    return table


def node_by_node(command: str) -> list[RenderableType]:
    """Return lines with the command that says of a pod why each node refuses it; none without a command."""
    lines = [Text("Why, node by node, and what would help:"), Text(f"  {command}", no_wrap=True, overflow="ignore")]
    return [*lines] if command else []


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def warning_lines(lines: Sequence[str]) -> list[RenderableType]:
    """Return warnings as lines below a table, those of one sort in a few."""
    kept = condensed(lines)
    texts: list[RenderableType] = [hanging("warning: ", shortened(line, _LONGEST_WARNING), "yellow") for line in kept]
    return texts if len(kept) == len(lines) else [*texts, Text(f"-o json lists all {len(lines):,} warnings")]
