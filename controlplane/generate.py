"""Writes the Go modules of the control plane anew: `python -m controlplane.generate`.

`k8s.io/kubernetes` replaces the modules it publishes (`k8s.io/api` and two dozen more) by folders of its own tree. A
replace in a dependency is ignored, so each is replaced here once more, by what was published under the same version.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from controlplane.releases import PACKAGES, RELEASES, Release

GO: Final = "1.26.0"
"""Language version of the modules; Kubernetes 1.37 needs it. A go command from 1.21 on fetches it if it is older."""

_STAGED: Final = re.compile(r"^\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s+=>\s+\./staging/src/", re.MULTILINE)
_HEADER: Final = "// Written by generate.py; do not edit.\n"


def generate(release: Release) -> None:
    """Write go.mod and go.sum of one release."""
    folder = release.module
    folder.mkdir(exist_ok=True)
    replaces = "".join(f"\t{name} => {name} {release.staging_version}\n" for name in staged_modules(release))
    text = f"{_HEADER}\nmodule controlplane/v{release.minor}\n\ngo {GO}\n\nreplace (\n{replaces})\n"
    (folder / "go.mod").write_text(text, encoding="utf-8")
    (folder / "go.sum").unlink(missing_ok=True)
    # The version has to be spelt out: the newest of a module that has none yet would not match the replaces.
    packages = [f"{PACKAGES[program]}@{release.version(program)}" for program in release.programs]
    _go(folder, "get", "-tool", *packages)


def staged_modules(release: Release) -> list[str]:
    """Return the names of the modules a Kubernetes release replaces by folders of its own tree."""
    with tempfile.TemporaryDirectory() as empty:
        found = json.loads(_go(Path(empty), "mod", "download", "-json", f"k8s.io/kubernetes@{release.kubernetes}"))
    return sorted(set(_STAGED.findall(Path(found["GoMod"]).read_text(encoding="utf-8"))))


def _go(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GOFLAGS": "", "GOWORK": "off"}
    return subprocess.run(["go", *arguments], cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Write all modules, or those of the releases that are named (`1.37`)."""
    wanted = sys.argv[1:] or [release.minor for release in RELEASES]
    for release in RELEASES:
        if release.minor in wanted:
            generate(release)


if __name__ == "__main__":
    main()
