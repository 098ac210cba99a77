"""Configuration of a stack whose plan stands on hosts: the inventory, the API key, TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pulumi
from pulumi.runtime.config import is_config_secret

from rackwright.errors import InputErrors, Problem, RackwrightError, listing
from rackwright.hosts import Settings
from rackwright.inventory import Host, load_inventory
from rackwright.plan import Plan
from stacks.hosts.program import HostsEnvironment

_KEY = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


def environment(config: pulumi.Config, root: Path, plan: Plan) -> HostsEnvironment:
    """What the stack's settings say of hosts.

    Raises:
        InputErrors: no inventory that can be read, a host that is not in it, no API key, one that is no
            secret or that no file can hold; all at once.
    """
    named = config.get("inventory")
    problems = [*_key_problems(config.get("apiKey")), *_exposed(config)]
    reached: dict[str, Host] = {}
    if named:
        try:
            inventory = load_inventory(root / named, plan=root / config.require("plan"))
        except RackwrightError as error:
            problems += error.problems
        else:
            reached = {host.name: host for host in inventory.hosts}
            problems += _absent(plan, reached, str(named))
    else:
        problems.append(
            Problem(
                "rackwright:inventory", "must name an inventory", "nothing",
                "it says how each host is reached, and whose host keys are known",
                "rackwright inventory PLAN -o hosts.ini; pulumi config set rackwright:inventory hosts.ini",
            )
        )  # fmt: skip
    if problems:
        raise InputErrors(problems)
    default = Settings()
    tls = config.get_bool("tls")
    return HostsEnvironment(
        settings=Settings(
            tls=default.tls if tls is None else tls,
            certificate=config.get("certificate") or default.certificate,
            certificate_key=config.get("certificateKey") or default.certificate_key,
        ),
        reached=reached,
        api_key=config.require_secret("apiKey"),
        sudo_password=config.get_secret("sudoPassword"),
    )


def _key_problems(key: str | None) -> Iterator[Problem]:
    if key is None:
        found = "nothing"
    elif not _KEY.fullmatch(key):
        found = f"{len(key)} characters, or others than these"
    else:
        return
    yield Problem(
        "rackwright:apiKey", "must be a key of 16 to 512 letters, digits and . _ ~ + / = -", found,
        "engines on a network without a key answer anybody",
        "pulumi config set --secret rackwright:apiKey",
    )  # fmt: skip


def _exposed(config: pulumi.Config) -> Iterator[Problem]:
    for name in ("apiKey", "sudoPassword"):
        if config.get(name) is not None and not is_config_secret(f"{config.name}:{name}"):
            yield Problem(
                f"rackwright:{name}", "must be set as a secret", "plain text",
                "it would stand in the settings and in the stack's state for everybody to read",
                f"pulumi config set --secret rackwright:{name}, with a new value",
            )  # fmt: skip


def _absent(plan: Plan, reached: dict[str, Host], inventory: str) -> Iterator[Problem]:
    names = [node.name for pool in plan.pools for node in pool.nodes if not node.spare]
    absent = [name for name in names if name not in reached]
    if absent:
        yield Problem(
            inventory, "must name every host of the plan", f"not there: {listing(absent)}",
            "a host left out would be left as it is", "add them: rackwright inventory PLAN",
        )  # fmt: skip
