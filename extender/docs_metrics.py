"""docs/metrics.md, made from the tables of `extender.metrics` and `extender.gauges`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from extender.gauges import NODE_SPECS, STATE_SPECS
from extender.metrics import PREFIX, REQUEST_SPECS, WATCH_SPECS, Spec
from extender.planmetrics import PLAN_SPECS

_INTRODUCTION: Final = f"""\
# Metrics

`GET /metrics`, Prometheus text. All names start with `{PREFIX}`; the process metrics of the client library stand beside
them. Label sets are closed: verbs, HTTP codes, causes, GPU resources, models and job sizes; no nodes, no pods. State
is read off one snapshot of the cluster at scrape, so no series outlives what it is about.

Worth an alert, because kube-scheduler itself says nothing of it:

- `{PREFIX}requests_total{{verb="prioritize",code!="200"}}` grows: kube-scheduler drops scores that do not come and
  places pods without packing.
- `{PREFIX}internal_errors_total` grows: a bug of ours.
- `time() - {PREFIX}last_request_timestamp_seconds{{verb="filter"}}` is large, or absent, while pods wait: the extender
  is not registered, or not for these pods.
- `{PREFIX}synced` is 0.
- `time() - {PREFIX}last_event_timestamp_seconds` is over some minutes: the API server tells
  nothing, not even bookmarks.
"""


def render_metrics() -> str:
    """Return the page as Markdown."""
    tables = {
        "Requests": REQUEST_SPECS,
        "State": STATE_SPECS,
        "Following a live cluster": WATCH_SPECS,
        "Planning": PLAN_SPECS,
        "Nodes, on `GET /metrics/nodes`": NODE_SPECS,
    }
    return "\n".join([_INTRODUCTION, *(line for title, specs in tables.items() for line in _section(title, specs))])


def _section(title: str, specs: Iterable[Spec]) -> Iterator[str]:
    yield f"## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|"
    for spec in specs:
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        yield f"| `{spec.full_name}` | {spec.kind.value} | {labels} | {spec.text} |"
    yield ""
