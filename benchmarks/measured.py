"""How a benchmark keeps what it measured: the machine first, because figures of two machines do not compare."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path


def write(path: Path, **found: object) -> None:
    """Write the facts of this machine and what was found to a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"cores": os.cpu_count(), "python": platform.python_version(), **found}
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
