"""All hosts of a plan, one resource each. None depends on another: one that is down fails alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi import dynamic

from rackwright.hosts import HostSet, Settings, decide
from rackwright.hosts.model import SECRETS
from rackwright.inventory import Host
from rackwright.plan import Plan
from stacks.hosts.provider import SECRET_MODE, HostProvider

_CREATE_TIMEOUT_MARGIN_S = 120


@dataclass(frozen=True)
class HostsEnvironment:
    """``reached``: how each host is reached, by name; ``api_key`` and ``sudo_password`` are secrets."""

    settings: Settings = field(default_factory=Settings)
    reached: Mapping[str, Host] = field(default_factory=dict)
    api_key: pulumi.Input[str] | None = None
    sudo_password: pulumi.Input[str] | None = None


class HostFiles(dynamic.Resource, module="rackwright", name="Host"):
    """Files, units and front of one host."""

    def __init__(
        self, found: HostSet, environment: HostsEnvironment, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        limit = f"{found.deadline_s + _CREATE_TIMEOUT_MARGIN_S}s"
        timeouts = pulumi.CustomTimeouts(create=limit, update=limit)
        props = properties(found, environment)
        own = pulumi.ResourceOptions(
            custom_timeouts=timeouts, additional_secret_outputs=["secret_files", "sudo_password"]
        )
        super().__init__(HostProvider(), found.host, props, pulumi.ResourceOptions.merge(own, opts))


def properties(found: HostSet, environment: HostsEnvironment) -> dict[str, Any]:
    """Inputs of one host's resource; secrets are marked as such."""
    key = "" if environment.api_key is None else environment.api_key

    def secrets(value: str) -> dict[str, str]:
        return {SECRETS: "".join(f"{name}={value}\n" for name in found.key_variables)}

    return {
        **plain_properties(found, environment.reached.get(found.host)),
        "secret_files": pulumi.Output.secret(key).apply(secrets),
        "sudo_password": pulumi.Output.secret(environment.sudo_password or ""),
    }


def plain_properties(found: HostSet, reached: Host | None = None) -> dict[str, Any]:
    """What of the inputs is no secret."""
    return {
        "host": _reached(reached or Host(found.host, found.host)),
        "root": found.root,
        "deadline_s": found.deadline_s,
        "script": found.file("host.sh").content,
        "files": {file.path: file.content for file in found.files},
        "modes": {**{file.path: file.mode for file in found.files}, SECRETS: SECRET_MODE},
        "state": {**{replica.name: "serves" for replica in found.replicas}, "front": "serves"},
    }


def _reached(host: Host) -> dict[str, Any]:
    """What of an inventory's line says where the host is."""
    names = ("name", "address", "port", "user", "key_file", "known_hosts", "proxy_jump")
    return {name: value for name in names if (value := getattr(host, name)) is not None}


def build_hosts(plan: Plan, environment: HostsEnvironment | None = None) -> tuple[HostSet, ...]:
    """Declare every host of ``plan``.

    Raises:
        InputErrors: the plan cannot stand on hosts.
    """
    chosen = environment or HostsEnvironment()
    found = decide(plan, chosen.settings)
    parent = pulumi.ComponentResource("rackwright:stacks:Hosts", "hosts")
    for host in found:
        HostFiles(host, chosen, pulumi.ResourceOptions(parent=parent))
    pulumi.export("plan", plan.digest)
    pulumi.export("hosts", [host.host for host in found])
    return found
