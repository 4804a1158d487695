"""Request and response bytes of every era of kube-scheduler: `pairs/ERA-VERB-WHAT.{request,response}` and one cluster.

A changed answer shows here as changed bytes. When that is meant, write the responses anew and read the difference:

    python -m tests.golden.test_golden
"""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from extender.cache import Cache
from extender.dump import read_dumps
from extender.kube.gpurules import GpuRules
from extender.metrics import Metrics
from extender.packing.policies.best_fit import BestFit
from extender.service import EmbeddedBinder, VerbService
from extender.verbs import VerbSettings
from extender.wire import Reader

FOLDER: Final = Path(__file__).parent
PAIRS: Final = sorted(path.with_suffix("") for path in (FOLDER / "pairs").glob("*.request"))
ERAS: Final = ("1.2", "1.4", "1.6", "1.7", "1.11", "1.21")


def answer(pair: Path) -> bytes:
    """Return status line and body for a request, on the cluster as it is in the file."""
    rules = GpuRules.default()
    dump = read_dumps([("cluster.json", (FOLDER / "cluster.json").read_bytes())], rules)
    cache = Cache(tentative_seconds=10)
    cache.relist(dump.nodes, dump.pods)
    reader = Reader(rules, pytest.fail)
    service = VerbService(cache, reader, VerbSettings(BestFit()), Metrics(), EmbeddedBinder(cache))
    verb = pair.name.split("-")[1]
    reply = service.answer(verb, pair.with_suffix(f"{pair.suffix}.request").read_bytes().rstrip(b"\n"))
    return b"%d %b\n%b\n" % (reply.status, HTTPStatus(reply.status).phrase.encode(), reply.body)


def response_of(pair: Path) -> Path:
    return pair.with_suffix(f"{pair.suffix}.response")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_answer_is_the_same_to_the_byte(pair):
    assert answer(pair).decode() == response_of(pair).read_text(encoding="utf-8")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_answer_is_what_go_decodes(pair):
    body = response_of(pair).read_text(encoding="utf-8").split("\n", 1)[1]
    value = json.loads(body, parse_float=lambda text: pytest.fail(f"{text} is no integer"))
    assert "null" not in body
    assert value != {}
    if "-prioritize-" in pair.name:
        assert isinstance(value, list)


def test_every_era_is_there():
    assert {pair.name.split("-")[0] for pair in PAIRS} == set(ERAS)


if __name__ == "__main__":
    for each in PAIRS:
        response_of(each).write_bytes(answer(each))
