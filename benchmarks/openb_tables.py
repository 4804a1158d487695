"""Results of `benchmarks.openb_quality`: merged by seed, and rendered as the tables of docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Final

from benchmarks import markdown
from benchmarks.quality import POOLED

Row = Mapping[str, Any]
Key = tuple[str, str, str]

BOUND: Final = "proven bound"
CHURN: Final = "churn"
_COLUMNS: Final = (("unallocated_percent", "unallocated % (smallest .. largest)"), ("refused_8", "8-GPU pods refused"))
_CHURN_COLUMNS: Final = (("wait_8_seconds", "8-GPU wait s"), ("wait_all_seconds", "all wait s"))


def merged(rows: list[Row], key: Key, seed: int, values: Mapping[str, float]) -> list[Row]:
    """Return the rows with one more measurement of (kind, workload, policy), in place of an earlier one of the seed."""
    seeds = {str(seed): {name: round(value, 3) for name, value in values.items()}}
    others = []
    for row in rows:
        if _key(row) == key:
            seeds = {**row["seeds"], **seeds}
        else:
            others.append(row)
    kind, workload, policy = key
    return [*others, {"kind": kind, "workload": workload, "policy": policy, "seeds": dict(sorted(seeds.items()))}]


def _key(row: Row) -> Key:
    return row["kind"], row["workload"], row["policy"]


def render(rows: Iterable[Row]) -> str:
    """Return the rows as Markdown tables, best first."""
    tables: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=_key):
        tables.setdefault((row["kind"], row["workload"]), []).append(row)
    # Saturation first, then what is derived from it, churn last.
    order = sorted(tables, key=lambda key: (key[0] != "saturation", key[0] == CHURN, key))
    return "\n\n".join(_table(*key, tables[key]) for key in order)


def _table(kind: str, workload: str, rows: list[Row]) -> str:
    columns = _CHURN_COLUMNS if kind == CHURN else _COLUMNS
    base = next((row for row in rows if row["policy"] in (BOUND, POOLED)), None)
    first = columns[0][0]
    against = "8-GPU wait / pooled" if kind == CHURN else "points above the bound"
    head = ["policy", *(title for _, title in columns), against, "seeds"]
    best_first = sorted(rows, key=lambda r: statistics.fmean(_values(r, first)))
    lines = (
        [
            row["policy"],
            *(_cell(row, name) for name, _ in columns),
            _against(row, base, first),
            str(len(row["seeds"])),
        ]
        for row in best_first
    )
    return f"### {kind}: {workload}\n\n{markdown.table(head, lines)}"


def _values(row: Row, name: str) -> list[float]:
    return [values[name] for values in row["seeds"].values() if name in values]


def _cell(row: Row, name: str) -> str:
    values = _values(row, name)
    if not values:
        return ""
    if name == "unallocated_percent":
        return markdown.spread(statistics.fmean(values), min(values), max(values))
    return f"{statistics.fmean(values):.0f}"


def _against(row: Row, base: Row | None, name: str) -> str:
    """Return the figure against that of the base, over the seeds that both have: points above it, or times it."""
    shared = sorted(row["seeds"].keys() & base["seeds"].keys()) if base is not None else []
    if base is None or not shared:
        return ""
    ours, theirs = (statistics.fmean(r["seeds"][seed][name] for seed in shared) for r in (row, base))
    return f"{ours / max(theirs, 1e-9):.2f}" if row["kind"] == CHURN else f"{ours - theirs:.2f}"
