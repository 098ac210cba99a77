"""The LeaderWorkerSet controller on loopback: its configuration, and webhooks that reach it by address."""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
from pathlib import Path
from typing import Any

import yaml

from tools.lab.api import Api
from tools.lab.certs import Pki

NAMESPACE = "lws-system"
GROUP = "leaderworkerset.x-k8s.io"
MEMBER = "leaderworkerset.sigs.k8s.io/name"
"""The label of a group's pods."""
Rule = tuple[list[str], list[str], list[str]]
_RULE = ("apiGroups", "apiVersions", "resources")
_SETS: Rule = ([GROUP], ["v1"], ["leaderworkersets"])
_PODS: Rule = ([""], ["v1"], ["pods"])


def configure(directory: Path, pki: Pki, port: int, health_port: int) -> Path:
    """Writes the controller's configuration and its certificate; gives the configuration's path."""
    certificates = directory / "certs"
    certificates.mkdir(parents=True, exist_ok=True)
    for source, name in zip(pki.server, ("tls.crt", "tls.key"), strict=True):
        shutil.copy2(source, certificates / name)
    path = directory / "config.yaml"
    config = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def serves(port: int) -> bool:
    """Whether the webhooks answer."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
        return True
    return False


def webhooks(api: Api, pki: Pki, port: int) -> None:
    """Registers the webhooks that the controller serves, once it answers."""
    authority = base64.b64encode(pki.ca.read_bytes()).decode()

    def hook(name: str, path: str, rule: Rule, operations: list[str]) -> dict[str, Any]:
        return {
            "name": f"{name}.kb.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "objectSelector": {"matchExpressions": [{"key": MEMBER, "operator": "Exists"}]}
            if rule is _PODS
            else {},
            "rules": [{"operations": operations, **dict(zip(_RULE, rule, strict=True))}],
        }

    both = ["CREATE", "UPDATE"]
    path = "-leaderworkerset-x-k8s-io-v1-leaderworkerset"
    for kind, hooks in (
        (
            "MutatingWebhookConfiguration",
            [hook("mset", f"/mutate{path}", _SETS, both), hook("mpod", "/mutate--v1-pod", _PODS, ["CREATE"])],
        ),
        (
            "ValidatingWebhookConfiguration",
            [hook("vset", f"/validate{path}", _SETS, both), hook("vpod", "/validate--v1-pod", _PODS, both)],
        ),
    ):
        api.apply(
            f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/lws",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": "lws"},
                "webhooks": hooks,
            },
        )
