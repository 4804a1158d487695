"""The binds of an embedded cluster, kept where a worker process that dies does not take them along.

The cluster is a file and its bindings are in memory alone. gunicorn starts another worker in place of a dead one, from
what the master held before the first bind, and every GPU bound since would be free again. So each bind is written down
before it is answered, in a file without a name: the master opens it, workers inherit it, and it is gone with the last
of them. Stopping the service forgets the binds; that is as it should be.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import pickle
import tempfile
from pathlib import Path
from typing import BinaryIO, Final, Self

from extender.cache import Cache
from extender.changes import PodSeen
from extender.errors import InputError
from extender.packing.types import PodInfo

_LOG: Final = logging.getLogger(__name__)
# What `pickle` raises at a record that was not finished, as its writer died; at the end of all records, EOFError.
_UNFINISHED: Final = (EOFError, pickle.UnpicklingError)


class BindJournal:
    """Bound pods, one record after the other. The caller sees to it that one thread writes at a time."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to the end of an unbuffered file."""
        self._file = file

    @classmethod
    def open(cls, folder: Path | None = None) -> Self:
        """Begin, without records; in a folder that need not be a disk.

        Raises:
            InputError: when there is no place for it.
        """
        try:
            return cls(tempfile.TemporaryFile("w+b", buffering=0, dir=folder))
        except OSError as error:
            raise InputError(f"no place for a temporary file: {error.strerror or error}") from error

    def close(self) -> None:
        """Let go of the file; other processes keep it."""
        self._file.close()

    def append(self, pod: PodInfo) -> None:
        """Write down a pod with its node.

        Raises:
            OSError: when it could not be; nothing is left of it then.
        """
        end = self._file.seek(0, os.SEEK_END)
        record = pickle.dumps(pod)
        try:
            if self._file.write(record) < len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._file.truncate(end)
            raise

    def read(self) -> list[PodInfo]:
        """Return the pods in the order written. A last one that was not finished was not answered: it is dropped."""
        self._file.seek(0)
        records = io.BytesIO(self._file.read())
        pods: list[PodInfo] = []
        while True:
            end = records.tell()
            try:
                pods.append(pickle.load(records))  # noqa: S301 - nobody else can open this file
            except _UNFINISHED:
                self._file.truncate(end)
                return pods


class Rebinding:
    """Binds again, in a worker that takes the place of a dead one, what that one had bound."""

    def __init__(self, cache: Cache, journal: BindJournal) -> None:
        """Prepare; nothing is read yet."""
        self._cache = cache
        self._journal = journal

    def start(self) -> None:
        """Enter what has been written down so far."""
        if bound := self._journal.read():
            self._cache.apply(PodSeen(pod) for pod in bound)
            _LOG.warning("a worker has taken the place of one that died; %d bindings are kept", len(bound))

    def stop(self) -> None:
        """Have nothing to end."""
