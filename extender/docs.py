"""Pages of `docs/` that are made from the code, so that they cannot rot: `python -m extender.docs` writes them.

To add a page, write `render_…() -> str` and name it in `generated_pages`; `tests/test_docs.py` compares every
page with its file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from extender.config import ENV_PREFIX, Config
from extender.docs_cli import render_cli
from extender.docs_metrics import render_metrics
from extender.docs_policies import render_policies
from extender.strictyaml import join

ROOT: Final = Path(__file__).resolve().parents[1]
"""The repository; page paths are relative to it."""

_NOTICE: Final = "<!-- Written by `python -m extender.docs`; edit the code, not this page. -->"

_HEAD: Final = "| field | type | default | meaning |\n|---|---|---|---|"
_TYPE_WORDS: Final = {
    "boolean": "true or false",
    "integer": "integer",
    "null": "`null`",
    "number": "number",
    "string": "text",
}

_INTRODUCTION: Final = f"""\
# Configuration

One YAML file (`--config FILE` or `{ENV_PREFIX}CONFIG`), the environment and flags. A flag beats the environment,
the environment beats the file, the file beats the default:

```yaml
server:
  listen: 127.0.0.1:8888
gpus:
  type_rank: [Tesla-T4, NVIDIA-A100-SXM4-80GB]
scoring:
  policy: planned
```

- The variable of a field is `{ENV_PREFIX}<SECTION>__<FIELD>`. Its value is read as YAML: `8`, `true`, `null`,
  `[a, b]`; what is no YAML is text. `{ENV_PREFIX}CONFIG` names the file, `{ENV_PREFIX}CI` belongs to the tests, and
  what Kubernetes tells pods about a Service of this name (`{ENV_PREFIX}PORT`, ...) is not looked at.
- Nothing is converted: `"8"` is text and no number. Unknown keys, keys given twice, unknown variables and unknown
  policy names are faults.
- All faults are reported at once, each with its path, and nothing starts: exit code 2.
- `gpu-extender config check FILE` says the faults and what the settings mean, without starting anything; it judges
  kube-scheduler's configuration files as well.
"""


_SCHEDULER_FILES: Final = """\
## kube-scheduler's side

Five files register the extender; `gpu-extender config check` puts each into words.

| file | for | our score |
|---|---|---|
| `policy/kube-scheduler-config.yaml` | 1.25 and newer | decides: weight 130, one step 1300 points, in-tree 1200 |
| `policy/kube-scheduler-config-advisory.yaml` | 1.25 and newer | advises: weight 12, 1200 points for our best node |
| `policy/kube-scheduler-config-second.yaml` | 1.25 and newer | a second scheduler beside the first, weight 130 |
| the first or second with `apiVersion: kubescheduler.config.k8s.io/v1beta3` | 1.23 and 1.24 | as there |
| `policy/kube-scheduler-config-v1beta1.yaml` | with the Policy | carries `percentageOfNodesToScore: 100` |
| `policy/scheduler-policy.json` | up to 1.22 (`--policy-config-file`) | decides: weight 130 against 300 |

About `scheduler-policy.json`, which can hold no comments:

- It has no `managedResources`. The resource of 1.3 to 1.10, `alpha.kubernetes.io/nvidia-gpu`, is refused there, so
  every pod is sent and pods without GPUs pass unchanged; but while the extender is down all pods wait. With
  `nvidia.com/gpu` on 1.10 and newer add `"managedResources": [{"name": "nvidia.com/gpu"}]`.
- It names predicates and priorities, because before 1.10 leaving them out means none, and 1.22 does not start with
  its default priorities at `-v 2` or more. All names are known from 1.4 to 1.22.
- From 1.9 on add `{"name": "CheckVolumeBinding"}` to the predicates, or volumes of class WaitForFirstConsumer are
  never bound; 1.8 and older do not know the name and do not start with it.
- `percentageOfNodesToScore: 100` has no place in it: give it in a `--config` file beside the Policy (1.12 and newer).
"""


def generated_pages() -> Mapping[str, Callable[[], str]]:
    """Return the generated pages: path relative to the repository -> function that renders it."""
    pages = {
        "docs/cli.md": render_cli,
        "docs/configuration.md": render_configuration,
        "docs/metrics.md": render_metrics,
        "docs/policies.md": render_policies,
    }
    return {path: _with_notice(render) for path, render in pages.items()}


def _with_notice(render: Callable[[], str]) -> Callable[[], str]:
    return lambda: f"{_NOTICE}\n\n{render().rstrip()}\n"


def render_configuration() -> str:
    """Return the reference of every configuration field as Markdown."""
    return "\n".join([_INTRODUCTION, *_sections(Config, ""), _SCHEDULER_FILES])


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    """Yield a table for each section, a section before the ones inside it."""
    schema = model.model_json_schema()["properties"]
    rows = []
    inner: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            inner.append((join(path, name), field.annotation))
        else:
            rows.append(_row(name, field, schema[name]))
    if rows:
        yield f"## {path}\n\n{model.__doc__}\n\n{_HEAD}\n" + "\n".join(rows) + "\n"
    for where, section in inner:
        yield from _sections(section, where)


def _row(name: str, field: FieldInfo, schema: Mapping[str, Any]) -> str:
    return f"| `{name}` | {_type_words(schema)} | {_default_words(field.default)} | {field.description} |"


def _type_words(schema: Mapping[str, Any]) -> str:
    """Say a JSON Schema in words: type, choices, bounds."""
    if "anyOf" in schema:
        return " or ".join(_type_words(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema["type"] == "array":
        return f"list of {_type_words(schema['items'])}"
    return _TYPE_WORDS[schema["type"]] + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high, below = (schema.get(key) for key in ("minimum", "maximum", "exclusiveMaximum"))
    if low is None:
        return ""
    return f", {low:,} to {high:,}" if high is not None else f", {low:,} to below {below:,}"


def _default_words(value: object) -> str:
    if isinstance(value, frozenset | tuple):
        # A set has no order of its own; the page must come out the same every time.
        items = sorted(value) if isinstance(value, frozenset) else value
        return "<br>".join(f"`{item}`" if item else "(empty text)" for item in items) or "(empty)"
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


def write_pages(root: Path) -> None:
    """Write every generated page below `root`."""
    for path, render in generated_pages().items():
        page = root / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(ROOT)
