"""Faults that a collector meets on its way in, and things it must not mind."""

from __future__ import annotations

import random

from tools.rack.faults.base import Args, fault
from tools.rack.state import HostState, ToolFault


@fault("no-sudo", "host", "host-privilege *root", alone=True)
def no_sudo(state: HostState, rng: random.Random, args: Args) -> None:
    """sudo asks for a password."""
    state.login.sudo = False


@fault("tool-missing", "host", "host-tools *nvme", alone=True, args={"tool": "which, nvme unless said"})
def tool_missing(state: HostState, rng: random.Random, args: Args) -> None:
    """A tool that checks need is not installed."""
    state.tool_faults.append(ToolFault(str(args.get("tool", "nvme")), "missing"))


@fault("connection-cut", "host", "net-reachable *after:nvidia-smi", alone=True)
def connection_cut(state: HostState, rng: random.Random, args: Args) -> None:
    """The connection breaks in the middle of the collection."""
    state.tool_faults.append(ToolFault("nvidia-smi", "cuts"))


@fault("host-down", "host", "net-reachable", silences=True)
def host_down(state: HostState, rng: random.Random, args: Args) -> None:
    """Nothing listens: the connection is refused."""
    state.login.up = False


@fault("host-frozen", "host", "net-reachable", silences=True)
def host_frozen(state: HostState, rng: random.Random, args: Args) -> None:
    """The connection is accepted, and nothing is ever said."""
    state.login.frozen = True


@fault("key-refused", "host", "net-reachable", silences=True)
def key_refused(state: HostState, rng: random.Random, args: Args) -> None:
    """The host does not know our key."""
    state.login.key_accepted = False


@fault("host-key-changed", "host", "net-reachable", silences=True)
def host_key_changed(state: HostState, rng: random.Random, args: Args) -> None:
    """The host shows another key than the one on record."""
    state.login.host_key_changed = True


@fault("locale", "host", "", touches="locale")
def locale(state: HostState, rng: random.Random, args: Args) -> None:
    """Logins get a German locale; nothing may be reported."""
    state.login.locale = "de_DE.UTF-8"


@fault("banner", "host", "", touches="banner")
def banner(state: HostState, rng: random.Random, args: Args) -> None:
    """A legal notice before each login; nothing may be reported."""
    state.login.banner = "*" * 70 + "\nAuthorised use only. Activity is recorded.\n" + "*" * 70 + "\n"


@fault("motd", "host", "", touches="motd")
def motd(state: HostState, rng: random.Random, args: Args) -> None:
    """Start-up files of the shell print to standard output; nothing may be reported."""
    state.login.motd = (
        "Welcome to the cluster!\n@rw fake frame 1 1\n0 done 0 1\n\nTicket 4711: maintenance on Friday\n"
    )
