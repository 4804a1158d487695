"""The log: one line per record, whatever comes from outside."""

from __future__ import annotations

import json
import logging

import pytest

from extender.logs import JsonFormatter, TextFormatter, configure
from extender.settings import Logging

FORGED = 'pod "x"\n2026-01-01 ERROR forged\x1b[31m'


def record(message: str, *args: object) -> logging.LogRecord:
    made = logging.LogRecord("extender.x", logging.WARNING, __file__, 1, message, args, None)
    made.created, made.msecs = 1_767_225_600.25, 250.0
    return made


def test_json_has_time_level_logger_and_message():
    assert json.loads(JsonFormatter().format(record("refused: %s", FORGED))) == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "extender.x",
        "message": f"refused: {FORGED}",
    }


def test_a_message_cannot_forge_a_line():
    for formatter in (JsonFormatter(), TextFormatter()):
        line = formatter.format(record("refused: %s", FORGED))
        assert len(line.splitlines()) == 1
        assert "\x1b" not in line


def test_a_traceback_stays_in_its_record():
    made = record("bug")
    try:
        raise ValueError("oops")
    except ValueError as error:
        made.exc_info = (ValueError, error, error.__traceback__)
    value = json.loads(JsonFormatter().format(made))
    assert "ValueError: oops" in value["traceback"]
    assert "ValueError: oops" in TextFormatter().format(made)


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def test_level_and_format_are_the_configurations(root_logger, capsys):
    configure(Logging(level="warning", format="text"))
    logging.getLogger("extender.x").info("silent")
    logging.getLogger("extender.x").warning("said")
    assert capsys.readouterr().err.rstrip().endswith("WARNING extender.x: said")
    configure(Logging(level="debug", format="json"))
    logging.getLogger("gunicorn.error").info("Booting worker")
    logging.getLogger("extender.x").debug("said")
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == ["said"]
