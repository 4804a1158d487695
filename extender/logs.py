"""The log: standard error, one line per record, JSON or text; what comes from outside cannot forge a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

from extender.printable import printable
from extender.settings import Logging

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
# gunicorn says at `info` what we print ourselves.
_QUIET: Final = ("gunicorn.error",)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Text for a terminal; control characters in the message are written as escapes."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class names it
        """Return the line without a traceback."""
        record.message = printable(record.message)
        return super().formatMessage(record)


def configure(settings: Logging) -> None:
    """Set up the root logger."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    level = getattr(logging, settings.level.upper())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
