"""The `cluster` section of the configuration: how a live cluster is found and followed."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from extender.settings import Section, Text


class Cluster(Section):
    """The live cluster that is followed when `serve` gets no file."""

    kubeconfig: Path | None = Field(
        None,
        description="Path of a kubeconfig. Not set: `$KUBECONFIG`, else the service account of the pod we run in, "
        "else `~/.kube/config`.",
    )
    context: Text | None = Field(
        None,
        description="Name of the kubeconfig's context. Not set: its current one.",
    )
    page_size: int = Field(
        500,
        ge=10,
        le=10000,
        description="Objects per page of a list. 500 as kubectl: a page of nodes keeps the interpreter busy for about "
        "20 ms, in which no request is answered.",
    )
    watch_min_seconds: float = Field(
        300.0,
        ge=1,
        le=86400,
        description="Least seconds a watch is asked to last. 300, and up to the next line, as client-go: the end is "
        "spread, so that not all clients come back at once.",
    )
    watch_max_seconds: float = Field(
        600.0,
        ge=1,
        le=86400,
        description="Most seconds a watch is asked to last. 600: twice the least.",
    )
    silence_seconds: float = Field(
        120.0,
        ge=1,
        le=86400,
        description="Seconds without a byte after which a watch is taken for dead and opened again. The API server "
        "sends a bookmark a minute; a connection that is lost without a word would hang for ever.",
    )
    backoff_first_seconds: float = Field(
        0.5,
        ge=0.01,
        le=60,
        description="Seconds before the first new attempt after a failure; half of it is random. They double from "
        "there while the API server tells nothing.",
    )
    backoff_max_seconds: float = Field(
        30.0,
        ge=0.01,
        le=3600,
        description="Most seconds between two attempts. 30, as client-go.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.watch_max_seconds < self.watch_min_seconds:
            raise ValueError("watch_max_seconds is less than watch_min_seconds")
        if self.backoff_max_seconds < self.backoff_first_seconds:
            raise ValueError("backoff_max_seconds is less than backoff_first_seconds")
        return self
