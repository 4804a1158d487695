"""The one place that knows the extender's JSON: bytes -> values -> bytes, for every kube-scheduler since 1.2.

Source: kube-scheduler/extender/v1/types.go and pkg/scheduler/extender.go; by era in docs/background.md, "Protocol".
"""

from extender.wire.decode import IncompleteError, Reader
from extender.wire.encode import (
    encode_error,
    encode_filter,
    encode_filter_error,
    encode_preempt,
    encode_prioritize,
    foreseen_names,
)
from extender.wire.names import UNKNOWN_ROW, NameList, locate
from extender.wire.values import (
    VERBS,
    BindQuestion,
    Failure,
    FilterAnswer,
    Form,
    PreemptQuestion,
    PrioritizeAnswer,
    Question,
    Victims,
)

__all__ = [
    "UNKNOWN_ROW",
    "VERBS",
    "BindQuestion",
    "Failure",
    "FilterAnswer",
    "Form",
    "IncompleteError",
    "NameList",
    "PreemptQuestion",
    "PrioritizeAnswer",
    "Question",
    "Reader",
    "Victims",
    "encode_error",
    "encode_filter",
    "encode_filter_error",
    "encode_preempt",
    "encode_prioritize",
    "foreseen_names",
    "locate",
]
