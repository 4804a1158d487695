"""The product's configuration: one YAML file, the environment and flags become one frozen `Config`.

    defaults  <  file  <  GPU_EXTENDER_<SECTION>__<FIELD>  <  flags

Nothing is coerced ("8" is not 8), nothing unknown is skipped, all faults are reported at once, with paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from extender.clustersettings import Cluster
from extender.errors import ConfigError
from extender.planningsettings import PlanningSettings
from extender.printable import shortened, shown
from extender.settings import Gpus, Logging, Scoring, Section, Server, Verbs, split_address
from extender.spelling import nearest
from extender.strictyaml import join, read_document

__all__ = [
    "ENV_PREFIX",
    "RESERVED_ENV",
    "Config",
    "check_document",
    "field_paths",
    "load_config",
    "split_address",
]

ENV_PREFIX: Final = "GPU_EXTENDER_"
FILE_ENV: Final = "GPU_EXTENDER_CONFIG"
RESERVED_ENV: Final = frozenset({"GPU_EXTENDER_CI", "GPU_EXTENDER_CLUSTER", FILE_ENV})
_LONGEST_PATH: Final = 300
# Half a surrogate pair is what an escape in JSON or YAML can say, and what Python makes of bytes that are no UTF-8; no
# path and no address holds a NUL.
_NO_TEXT: Final = re.compile("[\ud800-\udfff\0]")
_NO_TEXT_WORDS: Final = "holds what no text can hold: a NUL, or half a character"
"""Variables with our prefix that are no fields: the test suite's switch, the dump and the configuration file."""
# What a pod finds about each Service of its namespace, here about one whose name starts with `gpu-extender`.
_SERVICE_LINK: Final = re.compile(
    rf"^{ENV_PREFIX}([A-Z0-9]+_)*(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)


class Config(Section):
    """The whole configuration."""

    server: Server = Field(Server(), description="Listeners, threads and limits.")
    cluster: Cluster = Field(Cluster(), description="The live cluster.")
    verbs: Verbs = Field(Verbs(), description="Behaviour of the verbs.")
    gpus: Gpus = Field(Gpus(), description="What counts as a GPU and how its model is known.")
    scoring: Scoring = Field(Scoring(), description="Policy and its settings.")
    planning: PlanningSettings = Field(PlanningSettings(), description="What is solved beside the requests.")
    logging: Logging = Field(Logging(), description="Level and format of the log.")


def load_config(
    path: Path | None,
    *,
    env: Mapping[str, str],
    overrides: Mapping[str, object],
    known_policies: Collection[str],
) -> Config:
    """Read, merge and check the configuration.

    `path` is the YAML file, None for the one that GPU_EXTENDER_CONFIG names, if any; `overrides` maps field paths
    (`server.listen`) to flag values, None meaning "flag not given"; `known_policies` are the names `scoring.policy` may
    have.

    Raises:
        ConfigError: with every fault of file, environment and flags.
    """
    if path is None and env.get(FILE_ENV):
        path = Path(env[FILE_ENV])
    values, faults = _read(path)
    layers = _Layers(values)
    faults += _apply_environment(layers, env)
    faults += _apply_overrides(layers, overrides)
    config, wrong = _validate(layers, known_policies)
    if config is None or faults or wrong:
        raise ConfigError([*faults, *wrong], source=str(path or "configuration"))
    return config


def check_document(value: object, *, known_policies: Collection[str] | None) -> tuple[Config | None, list[str]]:
    """Check a file's value without environment and flags; with `known_policies` None any name will do."""
    if value is not None and not isinstance(value, dict):
        return None, ["file: must be a mapping of sections"]
    return _validate(_Layers(value or {}), known_policies)


class _Layers:
    """The merged values while they are put together, and who set each path (for the faults)."""

    def __init__(self, values: dict[str, object]) -> None:
        # A section whose fields are all commented out reads as null and means "nothing set".
        self.values: dict[str, object] = {key: value for key, value in values.items() if value is not None}
        self.origins: dict[str, str] = {}

    def put(self, path: str, value: object, *, origin: str) -> None:
        """Set one field; a section that is no mapping stays as it is, validation names it."""
        *sections, field = path.split(".")
        place: object = self.values
        for section in sections:
            place = place.setdefault(section, {}) if isinstance(place, dict) else place
        if isinstance(place, dict):
            place[field] = value
            self.origins[path] = origin


def _read(path: Path | None) -> tuple[dict[str, object], list[str]]:
    if path is None:
        return {}, []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return {}, [f"file: cannot be read: {getattr(error, 'strerror', None) or error}"]
    document = read_document(text)
    if document.value is None or isinstance(document.value, dict):
        return document.value or {}, list(document.faults)
    return {}, [*document.faults, "file: must be a mapping of sections"]


def _apply_environment(layers: _Layers, env: Mapping[str, str]) -> list[str]:
    fields = {ENV_PREFIX + path.upper().replace(".", "__"): path for path in field_paths()}
    faults = []
    for name in sorted(name for name in env if name.startswith(ENV_PREFIX) and name not in RESERVED_ENV):
        if name in fields:
            layers.put(fields[name], _env_value(env[name]), origin=name)
        elif not _SERVICE_LINK.match(name):
            faults.append(f"{name}: unknown variable{nearest(name, fields)}")
    return faults


def _env_value(text: str) -> object:
    """Read as YAML, so that numbers, switches, null and `[a, b]` can be said; what is no YAML is text."""
    document = read_document(text)
    return text if document.faults else document.value


def _apply_overrides(layers: _Layers, overrides: Mapping[str, object]) -> list[str]:
    fields = tuple(field_paths())
    faults = []
    for path, value in overrides.items():
        if path not in fields:
            faults.append(f"{path}: unknown field{nearest(path, fields)}")
        elif value is not None:
            layers.put(path, value, origin="flag")
    return faults


def _validate(layers: _Layers, known_policies: Collection[str] | None) -> tuple[Config | None, list[str]]:
    # Strict JSON mode: lists become tuples and text becomes paths, and nothing else is converted.
    # Sections nobody set are given empty, so that their defaults are checked as well.
    values: dict[str, object] = {name: {} for name in Config.model_fields}
    broken: list[str] = []
    text = json.dumps(_plain(values | layers.values, "", broken), default=str)
    faults = [_placed(path, _NO_TEXT_WORDS, layers.origins) for path in broken]
    try:
        config = Config.model_validate_json(text, context=known_policies)
    except ValidationError as error:
        return None, [*faults, *(_fault(details, layers.origins) for details in error.errors(include_url=False))]
    return (None if faults else config), faults


def _plain(value: object, path: str, broken: list[str]) -> object:
    """Return the value as JSON can hold it; `broken` gets the paths of texts with half a surrogate pair.

    Keys become text: YAML has others, which are unknown keys here.
    """
    if isinstance(value, str):
        if _NO_TEXT.search(value):
            broken.append(path)
        return _NO_TEXT.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_NO_TEXT.sub("\ufffd", str(k)): _plain(item, join(path, str(k)), broken) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{at}]", broken) for at, item in enumerate(value)]
    return value


def _fault(details: ErrorDetails, origins: Mapping[str, str]) -> str:
    path = ""
    for step in details["loc"]:
        path = f"{path}[{step}]" if isinstance(step, int) else join(path, step)
    return _placed(path, _words(details), origins)


def _placed(path: str, words: str, origins: Mapping[str, str]) -> str:
    origin = f" (from {origins[path]})" if path in origins else ""
    return f"{shortened(path, _LONGEST_PATH) or 'file'}: {words}{origin}"


def _words(details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        return "unknown key" + nearest(str(details["loc"][-1]), _siblings(details["loc"][:-1]))
    if details["type"] == "value_error":
        words = str(details["ctx"]["error"])
        return words if isinstance(details["input"], dict) else f"{words}, got {shown(details['input'])}"
    return f"{details['msg'][0].lower()}{details['msg'][1:]}, got {shown(details['input'])}"


def _siblings(path: tuple[int | str, ...]) -> Collection[str]:
    prefix = "".join(f"{step}." for step in path)
    below = [known.removeprefix(prefix) for known in field_paths() if known.startswith(prefix)]
    return {known.split(".")[0] for known in below}


def field_paths(model: type[BaseModel] = Config, path: str = "") -> Iterator[str]:
    """Yield the path of every field that is no section (`server.listen`), in the order they are written."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from field_paths(field.annotation, join(path, name))
        else:
            yield join(path, name)
