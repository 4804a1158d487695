"""Binds pods through the API server, for schedulers that leave it to the extender (`verbs.bind`).

    POST binding, with the UID --> done --------------------------------> "", and the cache knows at once
                               +-> 409, or no answer --> read the pod --> it is on that node: ""
                                                                      `-> it is not: why not

Nothing is tried twice: kube-scheduler comes again, and a binding that went through unnoticed is then found to be done
(kubernetes#96579). The binding carries the pod's UID, so one that was made for a pod of that name which is gone cannot
bind its successor (kubernetes#105261).
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from extender.cache import Cache
from extender.errors import ApiError, ClusterError, UnreachableError
from extender.kube.client import ApiClient
from extender.kube.raw import RawMeta, RawPod, RawPodSpec
from extender.wire import BindQuestion

_POD: Final = msgspec.json.Decoder(RawPod)


@dataclass(frozen=True, slots=True)
class LiveBinder:
    """Binds pods of a live cluster."""

    api: ApiClient
    cache: Cache

    def bind(self, question: BindQuestion) -> str:
        """Bind; return "" or why not, in one line.

        Raises:
            ClusterError: when the API server refuses for a reason of its own, or it cannot be known what came of it.
        """
        pod = f"{question.pod_namespace}/{question.pod_name}"
        try:
            self.api.post(_path(question) + "/binding", _binding(question), doing=f"bind pod {pod}")
            fault = ""
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            fault = self._looked_up(question, f"pod {pod} is not bound: {error}")
        except UnreachableError as error:
            fault = self._looked_up(question, f"pod {pod} is not bound: {error}")
        if not fault:
            self.cache.bound(question.pod_uid, question.node)
        return fault

    def _looked_up(self, question: BindQuestion, otherwise: str) -> str:
        """Return what became of a binding, by the pod as it is now; `otherwise` when nothing is wrong with the pod."""
        key = f"{question.pod_namespace}/{question.pod_name}"
        try:
            pod = _POD.decode(self.api.get(_path(question), {}, doing=f"get pod {key}"))
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return f"pod {key} is not known: it was deleted"
            raise
        except msgspec.MsgspecError as error:
            raise ClusterError(f"{otherwise}; the pod cannot be read: {error}") from error
        meta, spec = pod.metadata or RawMeta(), pod.spec or RawPodSpec()
        if meta.uid != question.pod_uid:
            return f"pod {key} has UID {meta.uid}, which differs from the UID {question.pod_uid} to be bound"
        if meta.deletion_timestamp:
            return f"pod is being deleted: {key}"
        if spec.node_name:
            return "" if spec.node_name == question.node else f"pod {key} is already assigned to {spec.node_name}"
        return otherwise


def _path(question: BindQuestion) -> str:
    return f"/api/v1/namespaces/{quote(question.pod_namespace, safe='')}/pods/{quote(question.pod_name, safe='')}"


def _binding(question: BindQuestion) -> bytes:
    meta = {"name": question.pod_name, "namespace": question.pod_namespace, "uid": question.pod_uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": question.node}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})
