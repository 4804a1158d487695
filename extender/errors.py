"""The exceptions of this program, and what each one means to whoever sees it.

    ExtenderError                 anything this program says about trouble that is not its own bug
    +-- InputError                the caller's fault: a bad file, item or field    exit code 2, HTTP 400
    |   +-- ConfigError           the configuration; carries every fault at once
    |   +-- DumpError             a dump, an arrivals file, a recorded decision
    |   `-- RequestError          a body sent by kube-scheduler or another client
    |       `-- TransferError     a request that has not come whole, or not as it claims; `status` is its HTTP status
    +-- ListenError               an address is taken by another program           exit code 3
    +-- OutputError               standard output cannot be written                exit code 3
    `-- ClusterError              the cluster's trouble: API server lost, not synced yet
        |                         exit code 3, HTTP 200 with `Error` on filter and bind
        +-- ApiError              the API server has refused; `status` is its HTTP status
        `-- UnreachableError      no answer: whether the request was carried out is not known

"Does not fit" is no exception but data (`extender.packing.types.Status`). A bug of ours stays a plain Python
exception: in the service one traceback and HTTP 500, on the command line one line that asks for a report and exit
code 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class ExtenderError(Exception):
    """Base of everything below; `str()` of it is one clear line for people."""

    exit_code: ClassVar[int] = 3
    """Exit code of the command line (0 to 3, see the command line contract)."""


class InputError(ExtenderError):
    """What the caller gave cannot be used; the text names file, item and field."""

    exit_code: ClassVar[int] = 2


_FAULTS_SHOWN = 20


class ConfigError(InputError):
    """The configuration cannot be used; `faults` has one `path: what is wrong` for each fault."""

    def __init__(self, faults: Sequence[str], *, source: str = "configuration") -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        self.source = source
        more = len(self.faults) - _FAULTS_SHOWN
        shown = [*self.faults[:_FAULTS_SHOWN], *([f"and {more} more faults"] if more > 0 else [])]
        super().__init__(f"{source}: " + "; ".join(shown))


class DumpError(InputError):
    """A dump, arrivals or record file cannot be read as what it should be."""


class RequestError(InputError):
    """An HTTP body cannot be read as the verb's argument."""


class TransferError(RequestError):
    """A request has not come whole, or not in the form it claims; `status` is the HTTP status that says so."""

    def __init__(self, text: str, status: int = 400) -> None:
        self.status = status
        super().__init__(text)


class ListenError(ExtenderError):
    """Another program listens where the service should."""


class OutputError(ExtenderError):
    """What a command has found out cannot be written: a full disk, a closed stream."""


class ClusterError(ExtenderError):
    """The cluster cannot be asked, or is not known yet."""


class ApiError(ClusterError):
    """The API server has answered, and refused; `reason` is its own word for it, such as Conflict, or ""."""

    def __init__(self, text: str, status: int, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        super().__init__(text)


class UnreachableError(ClusterError):
    """The API server has not answered: refused, lost, timed out, TLS. A request that was sent may have been done."""
