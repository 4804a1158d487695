"""Finds the programs of the control plane, and builds those that are missing.

    python -m controlplane.build          all releases
    python -m controlplane.build 1.37     one

A program is looked for in `$KUBEBUILDER_ASSETS` (where it has to be of the release's minor version), then in
`<cache>/<release>-<Go version>/`, of any Go version. What is in neither is built into the latter with the Go that is on
the path. The cache is `$CONTROLPLANE_CACHE`, by default `gpu-extender/controlplane` in the user's cache folder. Builds
may run side by side: the second waits for the first and finds its result.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controlplane.releases import ETCD, PACKAGES, RELEASES, Release, release

ASSETS: Final = "KUBEBUILDER_ASSETS"
CACHE: Final = "CONTROLPLANE_CACHE"
BUILD: Final = "make controlplane"
_MEGABYTE: Final = 10**6


class MissingProgramError(Exception):
    """A program is neither there nor can it be built; the text is one line."""


# ---------------------------------------------------------------- finding


def programs(of: Release) -> dict[str, Path]:
    """Return the path of every program of a release.

    Raises:
        MissingProgramError: when one has not been built yet.
    """
    found = {name: find(of, name) for name in of.programs}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        there = "" if shutil.which("go") else ", which needs Go"
        raise MissingProgramError(
            f"no {' and '.join(missing)} of Kubernetes {of.minor}, neither in ${ASSETS} nor in {cache()}: "
            f"`{BUILD}` builds them{there}"
        )
    return {name: path for name, path in found.items() if path is not None}


def find(of: Release, program: str) -> Path | None:
    """Return the path of one program, None when it has to be built."""
    assets = os.environ.get(ASSETS)
    if assets:
        path = Path(assets) / program
        if _is_program(path) and (program == ETCD or of.minor == _minor_of(path)):
            return path
    folders = sorted(cache().glob(f"{of.kubernetes}-go*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    return next((folder / program for folder in folders if _is_program(folder / program)), None)


def cache() -> Path:
    """Return the folder of all builds."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-extender" / "controlplane"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _minor_of(path: Path) -> str:
    """Return the minor version a Kubernetes program says it has: "Kubernetes v1.37.2" is 1.37."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    said = re.search(r"\bv(\d+\.\d+)\.", done.stdout)
    return said[1] if said else ""


# ---------------------------------------------------------------- building


def build_missing(of: Release) -> None:
    """Build what is missing of a release.

    Raises:
        MissingProgramError: when that cannot be done.
    """
    if all(find(of, name) for name in of.programs):
        return
    if not shutil.which("go"):
        raise MissingProgramError(f"no Go on the path, and Kubernetes {of.minor} has to be built: https://go.dev/dl/")
    go = _go_version(of)
    folder = cache() / f"{of.kubernetes}-{go}"
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        for name in of.programs:
            if find(of, name) is None:
                _build(of, name, folder / name, go)


def _build(of: Release, program: str, target: Path, go: str) -> None:
    _say(f"{program} {of.version(program)}: building with {go}, minutes the first time ... ")
    started = time.monotonic()
    unfinished = target.with_name(f".{program}.unfinished")
    flags = ["-trimpath", "-buildvcs=false", f"-ldflags={link_flags(of)}", "-o", str(unfinished)]
    done = _go(of, "build", *flags, PACKAGES[program])
    if done.returncode:
        _say("failed\n")
        raise MissingProgramError(f"{program} of Kubernetes {of.minor} cannot be built:\n{done.stderr.strip()}")
    unfinished.replace(target)
    _say(f"{target.stat().st_size // _MEGABYTE} MB in {time.monotonic() - started:.0f} s\n")


def link_flags(of: Release) -> str:
    """Return the linker's flags: no symbols, and the version, without which the programs call themselves v0.0.0."""
    major, minor = of.minor.split(".")
    said = {"gitVersion": of.kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in said.items())])


def _go_version(of: Release) -> str:
    done = _go(of, "env", "GOVERSION")
    if done.returncode:
        raise MissingProgramError(f"go env: {done.stderr.strip()}")
    return done.stdout.strip()


def _go(of: Release, *arguments: str) -> subprocess.CompletedProcess[str]:
    env: Mapping[str, str] = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    return subprocess.run(["go", *arguments], cwd=of.module, env=env, capture_output=True, text=True, check=False)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; the kernel takes it from a process that dies."""
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another build in {path.parent}\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def main() -> int:
    """Build what is missing of the releases that are named, or of all."""
    try:
        for of in [release(minor) for minor in sys.argv[1:]] or RELEASES:
            build_missing(of)
            folders = dict.fromkeys(str(path.parent) for path in programs(of).values())
            _say(f"Kubernetes {of.minor}: {', '.join(of.programs)} in {', '.join(folders)}\n")
    except (MissingProgramError, LookupError) as error:
        _say(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
