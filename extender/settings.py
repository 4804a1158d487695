"""The sections of the configuration: frozen values, each field with unit, default and reason.

`extender.config` puts them together and loads them; `docs/configuration.md` is made from the words below.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from extender.packing import gpu_labels

_LAST_PORT = 65535


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`; an IPv6 host stands in brackets and is returned without them.

    Raises:
        ValueError: for anything else; a host is required because an empty one would listen everywhere.
    """
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:\s/]+)):([0-9]{1,5})", address)
    if match is None or int(match[3]) > _LAST_PORT:
        raise ValueError("must be host:port, such as 127.0.0.1:8888 or [::1]:8888")
    return match[1] or match[2], int(match[3])


def _address(value: str) -> str:
    split_address(value)
    return value


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"given twice: {', '.join(twice)}")
    return values


Address = Annotated[str, AfterValidator(_address)]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], AfterValidator(_distinct)]
Weight = Annotated[float, Field(ge=0, le=1000)]


class Section(BaseModel):
    """Base of all sections: frozen, strict types, unknown keys are faults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Tls(Section):
    """TLS on the scheduler's listener; off unless a certificate is given."""

    cert_file: Path | None = Field(
        None,
        description="Path of the PEM certificate chain. Not set: plain HTTP, fine on loopback only.",
    )
    key_file: Path | None = Field(
        None,
        description="Path of the certificate's PEM key. Goes with `cert_file`.",
    )
    client_ca_file: Path | None = Field(
        None,
        description="Path of the PEM bundle that signs client certificates. Given, a client without one is "
        "turned away (only mTLS lets kube-scheduler prove who it is); probes and Prometheus then want "
        "`operators_listen`.",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together")
        if self.client_ca_file and not self.cert_file:
            raise ValueError("client_ca_file needs cert_file and key_file")
        return self


class Server(Section):
    """Listeners, threads and limits of the HTTP service."""

    listen: Address = Field(
        "127.0.0.1:8888",
        description="host:port of kube-scheduler's verbs; `[::1]:8888` for IPv6 (quote it in YAML), port 0 "
        "for any free one. Loopback because the shipped way to run is a sidecar; anything wider wants TLS.",
    )
    operators_listen: Address | None = Field(
        None,
        description="host:port of the page, API and metrics. Not set: they share `listen`. Given, "
        "kube-scheduler's port need not be opened to people and Prometheus.",
    )
    threads: int = Field(
        8,
        ge=1,
        le=256,
        description="Number of request threads. kube-scheduler has one verb in flight, binds and scrapes "
        "overlap it; 8 was enough for all of them when measured.",
    )
    keep_alive_seconds: int = Field(
        95,
        ge=0,
        le=3600,
        description="Seconds an idle connection stays open. Above the 90 s after which the Go client closes "
        "it: if we closed first, a POST could meet the closing and the pod would lose that attempt.",
    )
    request_timeout_seconds: int = Field(
        10,
        ge=1,
        le=600,
        description="Seconds a client may take for a TLS handshake, for the head of a request, for each further MiB of "
        "its body, and for each of the answer. More than any `httpTimeout` worth having; clients that stall hold no "
        "thread meanwhile.",
    )
    max_body_bytes: int = Field(
        256 * 2**20,
        ge=2**20,
        le=2**32,
        description="Bytes of the largest request body (256 MiB). Without `nodeCacheCapable` every call "
        "carries all nodes: 5,000 of them are up to 100 MB and must still be answered.",
    )
    graceful_timeout_seconds: int = Field(
        10,
        ge=1,
        le=600,
        description="Seconds for running requests to end after SIGTERM. Longer than any `httpTimeout` we "
        "ship (2 s), shorter than the 30 s a pod has to end.",
    )
    tls: Tls = Field(Tls(), description="Certificate files.")

    @model_validator(mode="after")
    def _two_listeners(self) -> Self:
        if self.operators_listen == self.listen and split_address(self.listen)[1] != 0:
            raise ValueError("operators_listen is the same as listen; leave it out to share one listener")
        return self


class Verbs(Section):
    """How filter, prioritize, preempt and bind behave."""

    bind: bool = Field(
        default=False,
        description="Switch: answer the bind verb. Off, because kube-scheduler binds well by itself and only "
        "one extender may bind; on needs `bindVerb` in its configuration and the right to create bindings.",
    )
    counts: Literal["scheduler", "own"] | None = Field(
        None,
        description="Whose count of free GPUs may reject a node. `scheduler`: it has counted already and "
        "knows more than our watch, a node we think full is kept and scored 0. `own`: we reject it, needed "
        "with `ignoredByScheduler`. Not set: `scheduler` on a live cluster, `own` on files.",
    )
    tentative_seconds: float = Field(
        10.0,
        ge=0,
        le=300,
        description="Seconds a scored node stays booked for a pod whose binding we have not seen. 10 s is "
        "kube-scheduler's longest back-off: by then the pod is bound or is scored anew. Moves scores only.",
    )
    hold_seconds: float = Field(
        15.0,
        ge=0,
        le=300,
        description="Seconds for which a node on which a larger pod of at least the same priority could run now, and "
        "which kube-scheduler has refused before, is not broken up by smaller pods; 0 switches holds off. 15: "
        "kube-scheduler tries the larger pod again within 10.",
    )
    hold_limit: int = Field(
        16,
        ge=1,
        le=256,
        description="Nodes held at a time. Few, as smaller pods wait for what is held; first come the pods of the "
        "highest priority, then the oldest.",
    )
    ranked_up_to: int = Field(
        1000,
        ge=0,
        le=1_000_000,
        description="Candidates up to which prioritize lists all with their scores; of more it names the best alone. "
        "kube-scheduler takes the others for 0: the same choice where our weight decides. 1,000: at 5,000 the long "
        "list costs it 10 ms of CPU a pod, a third of what it needs by itself. Raise it where our weight only advises.",
    )
    refusal_wait_seconds: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Seconds for which filter waits for news of a live cluster before it refuses a pod everywhere, 0: "
        "never. kube-scheduler's watch may be milliseconds ahead of ours, and a pod refused by what has just changed "
        "would wait for the next event, up to 5 minutes. At most a second in a burst, a tenth of all time.",
    )
    pass_through_pods_without_gpus: bool = Field(
        default=False,
        description="Switch: score pods without GPUs 0 everywhere. Off: they are kept off GPU nodes, whose "
        "CPU and memory the GPUs need. Filter leaves such pods alone either way.",
    )


class Gpus(Section):
    """What counts as a GPU, and which labels tell its model. Lists replace the default as a whole."""

    resources: Texts = Field(
        gpu_labels.GPU_RESOURCES,
        description="Resource names (fnmatch patterns) of GPUs handed out whole. Listed one by one: a prefix "
        "would count `gpu.intel.com/monitoring` as a GPU.",
    )
    shared_resources: Texts = Field(
        gpu_labels.SHARED_RESOURCES,
        description="Resource names (fnmatch patterns) of shared GPUs; they win over `resources`. Listed and "
        "counted, never packed.",
    )
    model_labels: Texts = Field(
        gpu_labels.MODEL_LABELS,
        description="Label keys that name a node's GPU model; the first with a usable value wins. What was "
        "measured on the node stands before what was ordered from a cloud.",
    )
    vendor_only_values: frozenset[str] = Field(
        gpu_labels.VENDOR_ONLY_VALUES,
        description="Values of those labels, in lower case, that name no model: AKS writes `accelerator=nvidia`.",
    )
    memory_labels: Texts = Field(
        gpu_labels.MEMORY_LABELS,
        description="Label keys with the memory of one GPU in MiB (or with a suffix: 64G is GiB), first wins.",
    )
    compute_labels: Texts = Field(
        gpu_labels.COMPUTE_LABELS,
        description="Label keys of the compute capability, a version: the key itself, or its `.major` and `.minor`.",
    )
    cuda_labels: Texts = Field(
        gpu_labels.CUDA_LABELS,
        description="Label keys of the newest CUDA version the driver runs, read like `compute_labels`.",
    )
    sharing_labels: Texts = Field(
        gpu_labels.SHARING_LABELS,
        description="Label keys that say a GPU is shared or cut: an integer above 1, or a word other than none.",
    )
    type_rank: Texts = Field(
        (),
        description="GPU models, cheapest first. Where a pod takes several, the cheaper one wins when all "
        "else is equal. Empty: no price is known, and none is guessed.",
    )


class Parameters(Section):
    """Weights of the terms of `hole-aware` and `planned`: plain factors of costs in GPUs. As measured."""

    fragmentation_weight: Weight = Field(
        1.0,
        description="Factor of the expected fragmentation of what is left. 1: the unit of all others.",
    )
    guard_weight: Weight = Field(
        4.0,
        description="Factor of the guard of contended models. 4: without it typed 8-GPU pods wait up to half as "
        "long again; between 3 and 20 their wait hardly changes, but clusters that fill up are left emptier by more.",
    )
    large_node_weight: Weight = Field(
        1.0,
        description="Factor that keeps small pods off the largest nodes. 1: one GPU's worth per GPU asked.",
    )
    cpu_ratio_weight: Weight = Field(
        0.1,
        description="Factor of CPU per remaining GPU. 0.1: it decides between equals and hardly matters else.",
    )
    ladder_weight: Weight = Field(
        10.0,
        description="Factor of the penalty on a pod's own ladder of types. 10: the pod's word beats packing.",
    )
    preference_weight: Weight = Field(
        10.0,
        description="Factor of the share of a pod's preferred node affinity that a node misses. 10: as with the "
        "ladder, the pod's word beats packing; in-tree scoring of preferences is overruled at a weight that decides.",
    )
    quota_weight: Weight = Field(
        3.0,
        description="Factor of the quotas of kinds of nodes that `planned` follows while the cluster fills. 3: a pod "
        "leaves the model and size it should take when the GPUs that would strand there are worth more.",
    )
    cpu_quota_weight: Weight = Field(
        1.0,
        description="Factor of the quotas of nodes of a kind by their free CPU, likewise. 1: which of the "
        "started ones; an untouched one never comes before these by it.",
    )
    type_rank_weight: Weight = Field(
        0.05,
        description="Factor of a model's place in `gpus.type_rank`. 0.05: price decides between equals only.",
    )


class Scoring(Section):
    """Which policy scores nodes, and with what settings."""

    policy: str = Field(
        "planned",
        validate_default=True,
        description="Name of the policy. `planned` keeps whole nodes whole and contended GPU models for those who need "
        "them, and follows what is solved beside the requests: quotas while the cluster fills, the joint plan of the "
        "queue. `hole-aware` is the same without a planner.",
    )
    parameters: Parameters = Field(Parameters(), description="Weights of the policy's terms.")

    @field_validator("policy")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        known: Collection[str] | None = info.context
        if known is not None and value not in known:
            raise ValueError(f"must be one of {', '.join(sorted(known))}")
        return value


class Logging(Section):
    """What the log says and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Least severity written. `info` has no line per request: metrics tell those.",
    )
    format: Literal["json", "text"] = Field(
        "json",
        description="One JSON object a line for collectors, or text for a terminal.",
    )
