"""One SSH connection a host: strict host keys, one script on its stdin, one deadline for everything.

Every way it can fail becomes an :class:`UnreachableError`: one line and the next command, no traceback.
"""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import logging
import os
import queue
import re
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rackwright.errors import CannotRun, Problem
from rackwright.inventory import Host
from remote.hostkeys import (
    HostKeyChanged,
    HostKeyUnknown,
    KnownHosts,
    StrictPolicy,
    host_label,
    resolve_files,
)
from remote.sshlib import paramiko

logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_CHUNK = 1 << 16
_ENDPOINT = re.compile(r"[A-Za-z0-9._:%@][A-Za-z0-9._:%@-]*")
_JUMPS = 8
"""Logins at a time through a jump host: sshd starts to refuse at ten that are under way."""


class UnreachableError(Exception):
    """The host could not be collected. ``next`` is the command that gets further."""

    def __init__(self, problem: str, next_: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.next = next_


@dataclass(frozen=True)
class Settings:
    """How hosts are reached. ``known_hosts`` and ``ssh_config`` override the user's own files."""

    known_hosts: Path | None = None
    ssh_config: Path | None = None
    key_file: Path | None = None
    inventory: str = "hosts.ini"
    connect_s: float = 10.0
    banner_s: float = 10.0
    auth_s: float = 15.0
    deadline_s: float = 60.0
    max_bytes: int = 64_000_000


@dataclass(frozen=True)
class Endpoint:
    """Where a host really is: inventory values first, then the ssh configuration, then defaults."""

    name: str
    address: str
    port: int
    user: str
    key_files: tuple[str, ...]
    identities_only: bool
    known_hosts_files: tuple[Path, ...]
    proxy_command: str
    label: str


class _Config(paramiko.SSHConfig):
    """Leaves a proxy command's tokens to ``_expanded``, which knows the inventory and quotes values."""

    TOKENS_BY_CONFIG_KEY = {**paramiko.SSHConfig.TOKENS_BY_CONFIG_KEY, "proxycommand": []}  # noqa: RUF012


def _read_config(given: Path | None) -> paramiko.SSHConfig:
    """The user's own file may be absent; one that is ``given`` must be there and mean something.

    Raises:
        CannotRun: the given file cannot be read.
    """
    path = given or Path("~/.ssh/config").expanduser()
    try:
        return _Config.from_path(str(path))
    except (paramiko.SSHException, OSError, ValueError) as error:
        if given is None:
            return _Config()
        found = "a line that is none of ssh's" if isinstance(error, paramiko.SSHException) else _short(error)
        raise CannotRun(
            Problem(
                str(given),
                "--ssh-config must be a readable ssh configuration",
                found,
                "hosts would be reached by other users, ports and jump hosts than it says",
                f"mend it (ssh -F {shlex.quote(str(given))} -G HOST names the line), or leave it out",
            )
        ) from None


@dataclass
class Network:
    """Resolves endpoints and opens connections; files are read once, not once a host."""

    settings: Settings
    _known: dict[tuple[Path, ...], KnownHosts] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _jumps: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_JUMPS))

    def __post_init__(self) -> None:
        if self.settings.ssh_config:
            _ = self._config

    @cached_property
    def _config(self) -> paramiko.SSHConfig:
        return _read_config(self.settings.ssh_config)

    def endpoint(self, host: Host) -> Endpoint:
        """Where ``host`` is reached.

        Raises:
            UnreachableError: its address or user is none, or a jump host is.
        """
        for what, text in (("address", host.address), ("user", host.user)):
            if text and not _ENDPOINT.fullmatch(text):
                raise UnreachableError(
                    f"the {what} of {host.name} holds more than letters, digits and . _ : % @ -",
                    f"mend ansible_{'host' if what == 'address' else what} in the inventory",
                )
        config = self._lookup(host.address)
        address = str(config.get("hostname", host.address))
        port = host.port or _number(config.get("port")) or 22
        user = host.user or config.get("user") or getpass.getuser()
        override = str(self.settings.known_hosts) if self.settings.known_hosts else host.known_hosts
        from_config = config.get("userknownhostsfile")
        files = resolve_files(override or (from_config.split() if from_config else None))
        if self.settings.key_file or host.key_file:
            keys: tuple[str, ...] = (str(Path(str(self.settings.key_file or host.key_file)).expanduser()),)
        else:
            keys = tuple(str(Path(k).expanduser()) for k in config.get("identityfile", ()))
        alias = config.get("hostkeyalias")
        return Endpoint(
            name=host.name,
            address=address,
            port=port,
            user=user,
            key_files=keys,
            identities_only=config.get("identitiesonly", "no").lower() == "yes",
            known_hosts_files=files,
            proxy_command=self._proxy(host, config, address, port, str(user)),
            label=alias or host_label(address, port),
        )

    def _lookup(self, address: str) -> dict[str, Any]:
        with self._lock:
            return dict(self._config.lookup(address))

    def _proxy(self, host: Host, config: dict[str, Any], address: str, port: int, user: str) -> str:
        jump = host.proxy_jump or config.get("proxyjump")
        if not jump or str(jump).lower() == "none":
            command = str(config.get("proxycommand") or "none")
            if command.lower() == "none" or jump:
                return ""
            return _expanded(command, {"h": address, "p": str(port), "r": user, "n": host.address})
        return _jump_command(
            str(jump).split(","),
            f"[{address}]:{port}",
            self.settings,
            self.settings.known_hosts or host.known_hosts,
        )

    def known(self, files: tuple[Path, ...]) -> KnownHosts:
        with self._lock:
            if files not in self._known:
                self._known[files] = KnownHosts.load(files)
            return self._known[files]

    @contextlib.contextmanager
    def connect(self, host: Host, deadline: float) -> Iterator[paramiko.SSHClient]:
        """A connection that is closed, by force if need be, at ``deadline`` (time.monotonic).

        Raises:
            UnreachableError: it could not be made.
        """
        try:
            endpoint = self.endpoint(host)
        except (paramiko.SSHException, ValueError, OSError, KeyError) as error:
            raise UnreachableError(
                f"the ssh configuration for {host.name} cannot be read: {_short(error)}", "mend ~/.ssh/config"
            ) from None
        client = paramiko.SSHClient()
        opened: list[Any] = []
        watchdog = threading.Timer(max(deadline - time.monotonic(), 0.0), _abort, (client, opened))
        watchdog.daemon = True
        watchdog.start()
        try:
            with self._jumps if endpoint.proxy_command else contextlib.nullcontext():
                self._open(client, opened, endpoint, deadline)
            yield client
        finally:
            watchdog.cancel()
            client.close()
            _close(opened)

    def host_key(self, host: Host) -> tuple[Endpoint, paramiko.PKey]:
        """The key that the server shows, without a login.

        Raises:
            UnreachableError: it could not be had.
        """
        at = self.endpoint(host)
        deadline = time.monotonic() + self.settings.connect_s + self.settings.banner_s
        opened: list[Any] = []
        try:
            sock = _socket(at, opened, self.settings.connect_s, deadline)
            transport = _preferring(self.known(at.known_hosts_files).types(at.label))(sock)
            transport.banner_timeout = self.settings.banner_s
            with contextlib.closing(transport):
                transport.start_client(timeout=self.settings.banner_s)
                return at, transport.get_remote_server_key()
        except UnreachableError:
            raise
        except Exception as error:  # paramiko raises bare Exception and EOFError too
            raise self._explained(error, at, _complaint(opened)) from None
        finally:
            _close(opened)

    def _open(self, client: paramiko.SSHClient, opened: list[Any], at: Endpoint, deadline: float) -> None:
        known = self.known(at.known_hosts_files)
        client.set_missing_host_key_policy(StrictPolicy(known, at.label))
        settings = self.settings
        begin = time.monotonic()
        keys: Any = [k for k in at.key_files if Path(k).exists()]
        try:
            sock = _socket(at, opened, settings.connect_s, deadline)
            client.connect(
                at.address,
                at.port,
                username=at.user,
                key_filename=keys or None,
                allow_agent=not (at.identities_only and at.key_files),
                look_for_keys=not at.key_files,
                sock=sock,
                banner_timeout=settings.banner_s,
                auth_timeout=settings.auth_s,
                channel_timeout=settings.connect_s,
                transport_factory=_preferring(known.types(at.label)),
            )
        except UnreachableError:
            raise
        except Exception as error:  # paramiko raises bare Exception and EOFError too
            if time.monotonic() >= deadline:
                raise UnreachableError(
                    f"no login within {settings.deadline_s:g} s at {at.address}:{at.port}", _by_hand(at)
                ) from None
            silent = time.monotonic() - begin >= settings.banner_s - 0.5
            raise self._explained(error, at, _complaint(opened), silent=silent) from None

    def _explained(
        self, error: Exception, at: Endpoint, complaint: str, *, silent: bool = False
    ) -> UnreachableError:
        where = f"{at.address}:{at.port}"
        enrol = f"rackwright enrol --hosts {shlex.quote(self.settings.inventory)}"
        if self.settings.known_hosts:
            enrol += f" --known-hosts {shlex.quote(str(self.settings.known_hosts))}"
        if isinstance(error, HostKeyUnknown):
            return UnreachableError(str(error), enrol)
        if isinstance(error, HostKeyChanged):
            return UnreachableError(
                f"{error}: another machine, or it was reinstalled",
                f"compare with the console's fingerprint; if it is right: "
                f"ssh-keygen -R {shlex.quote(error.label)} -f {error.place.rpartition(':')[0]}, then {enrol}",
            )
        if isinstance(error, paramiko.PasswordRequiredException):
            return UnreachableError(
                f"the private key for {at.user}@{where} is encrypted, and no agent holds it",
                f"ssh-add {' '.join(at.key_files)}".rstrip(),
            )
        missing = [k for k in at.key_files if not Path(k).exists()]
        refused = isinstance(error, paramiko.AuthenticationException)
        if refused or "no authentication methods" in str(error).lower():
            tried = f"key file {missing[0]} does not exist" if missing else _keys_tried(at)
            return UnreachableError(f"login refused: {at.user}@{where} ({tried})", _by_hand(at))
        if at.proxy_command:
            return UnreachableError(
                f"no SSH connection to {where} through `{at.proxy_command}`: {complaint or _short(error)}",
                f"try it by hand: {at.proxy_command} </dev/null must print SSH-2.0-…",
            )
        if isinstance(error, TimeoutError) or "timed out" in str(error).lower():
            return UnreachableError(
                f"no answer from {where} within {self.settings.connect_s:g} s", _by_hand(at)
            )
        if silent and "banner" in str(error).lower():
            return UnreachableError(
                f"{where} accepts connections but does not answer: no SSH banner within "
                f"{self.settings.banner_s:g} s",
                f"the host may be frozen or overloaded: look at its console; {_by_hand(at)}",
            )
        if any(word in str(error).lower() for word in ("banner", "protocol version")):
            return UnreachableError(f"{where} answers, but not as an SSH server", _by_hand(at))
        if isinstance(error, paramiko.SSHException) and "no existing session" in str(error).lower():
            return UnreachableError(f"{where} ended the connection during the login", _by_hand(at))
        if isinstance(error, paramiko.SSHException | EOFError | OSError | ValueError):
            return UnreachableError(f"no SSH connection to {where}: {_short(error)}", _by_hand(at))
        return UnreachableError(
            f"no SSH connection to {where}: {type(error).__name__}: {_short(error)}", _by_hand(at)
        )


def _jump_command(hops: list[str], target: str, settings: Settings, known_hosts: Any) -> str:
    """What ssh(1) does for ProxyJump: through all hops but the last, then a tunnel from the last one."""
    if any(hop.strip().startswith("-") or not hop.strip() for hop in hops):
        raise UnreachableError(
            "a ProxyJump is empty or begins with -, which ssh would take for an option",
            "mend ProxyJump in the inventory or in the ssh configuration",
        )
    words = ["ssh", "-o", "BatchMode=yes"]
    if settings.ssh_config:
        words += ["-F", str(settings.ssh_config)]
    if known_hosts:
        words += ["-o", f"UserKnownHostsFile={known_hosts}"]
    if hops[:-1]:
        words += ["-J", ",".join(hop.strip() for hop in hops[:-1])]
    last = re.match(r"^(.*?)(?::(\d+))?$", hops[-1].strip())
    if last and last[2]:
        words += ["-p", last[2]]
    return shlex.join([*words, "-W", target, "--", last[1] if last else hops[-1]])


def _expanded(command: str, values: dict[str, str]) -> str:
    """A proxy command with each token replaced by its value, as one word of the shell."""

    def value(token: re.Match[str]) -> str:
        return "%" if token[1] == "%" else shlex.quote(values[token[1]])

    return re.sub(r"%([%hprn])", value, command)


def _number(text: Any) -> int | None:
    digits = str(text or "")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 6 else None


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return " ".join(text.split())[:200]


def _by_hand(at: Endpoint) -> str:
    port = f"-p {at.port} " if at.port != 22 else ""
    key = f"-i {at.key_files[0]} " if at.key_files else ""
    return f"try it by hand: ssh {port}{key}{at.user}@{at.address}"


def _keys_tried(at: Endpoint) -> str:
    if at.key_files:
        agent = " and the agent's keys" if os.environ.get("SSH_AUTH_SOCK") and not at.identities_only else ""
        return f"tried {', '.join(at.key_files)}{agent}"
    return "tried the agent's keys and those in ~/.ssh"


def _preferring(types: list[str]) -> Any:
    """A transport that asks the server for a key of a type on record."""

    def make(sock: Any, **kwargs: Any) -> paramiko.Transport:
        transport = paramiko.Transport(sock, **kwargs)
        options = transport.get_security_options()
        wanted = []
        for name in types:
            wanted += ["rsa-sha2-512", "rsa-sha2-256"] if name == "ssh-rsa" else [name]
        first = [name for name in wanted if name in options.key_types]
        options.key_types = tuple(first + [name for name in options.key_types if name not in first])
        return transport

    return make


class _Proxy:
    """A proxy command on one end of a socket pair, so that its end is the connection's end."""

    def __init__(self, command: str) -> None:
        self.sock, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def complaint(self) -> str:
        """The last thing it said, once it has ended."""
        try:
            _, said = self._process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            return ""
        lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with status {self._process.returncode}"

    def close(self) -> None:
        self.sock.close()
        if self._process.poll() is None:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        if self._process.stderr is not None:
            self._process.stderr.close()


def _complaint(opened: list[Any]) -> str:
    return next((item.complaint() for item in opened if isinstance(item, _Proxy)), "")


def _close(opened: list[Any]) -> None:
    for item in opened:
        with contextlib.suppress(OSError):
            item.close()


def _socket(at: Endpoint, opened: list[Any], connect_s: float, deadline: float) -> socket.socket:
    """A connected socket; what must be closed with it is added to ``opened``."""
    if at.proxy_command:
        proxy = _Proxy(at.proxy_command)
        opened += [proxy, proxy.sock]
        return proxy.sock
    sock = _connected(at, connect_s, deadline)
    opened.append(sock)
    return sock


def _connected(at: Endpoint, connect_s: float, deadline: float) -> socket.socket:
    limit = max(min(connect_s, deadline - time.monotonic()), 0.1)
    end = time.monotonic() + limit
    last: Exception = TimeoutError()
    for family, kind, protocol, _, address in _resolve(at, limit):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(max(end - time.monotonic(), 0.1))
            sock.connect(address)
        except OSError as error:
            last = error
            sock.close()
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock
    where = f"{at.address}:{at.port}"
    if isinstance(last, ConnectionRefusedError):
        raise UnreachableError(
            f"connection refused at {where}: nothing listens there", "start sshd there, or mend ansible_port"
        )
    raise last


def _resolve(at: Endpoint, limit: float) -> list[Any]:
    """Addresses of a name. getaddrinfo knows no deadline, so it may be left behind in its own thread."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(at.address)
        return list(socket.getaddrinfo(at.address, at.port, type=socket.SOCK_STREAM))
    answer: queue.Queue[Any] = queue.Queue()

    def ask() -> None:
        try:
            answer.put(socket.getaddrinfo(at.address, at.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answer.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        found = answer.get(timeout=limit)
    except queue.Empty:
        found = OSError(f"name service did not answer within {limit:g} s")
    if isinstance(found, Exception):
        raise UnreachableError(
            f'the name "{at.address}" cannot be resolved: {_short(found)}',
            f"set ansible_host for {at.name} in the inventory, or mend DNS: getent hosts {at.address}",
        )
    return list(found)


def _abort(client: paramiko.SSHClient, opened: list[Any]) -> None:
    """End a connection that its peer keeps open: first the socket, then paramiko's thread."""
    for sock in opened:
        with contextlib.suppress(Exception):
            sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(Exception):
            sock.close()
    transport = client.get_transport()
    if transport is not None:
        with contextlib.suppress(Exception):
            transport.close()


class AbortedError(Exception):
    """The remote command was ended by us or by the network; ``reason`` says which."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def stream(
    client: paramiko.SSHClient, command: str, stdin: bytes, *, deadline: float, max_bytes: int
) -> Iterator[bytes]:
    """Standard output of ``command`` as it comes. The last item is followed by a normal return only if
    the remote side ended the stream.

    Raises:
        AbortedError: the deadline or the size limit was reached, or the connection broke.
    """
    transport = client.get_transport()
    if transport is None or not transport.is_active():
        raise AbortedError("the connection was cut")
    try:
        channel = transport.open_session(window_size=1 << 21, timeout=10)
        channel.exec_command(command)
        yield from _pump(channel, stdin, deadline, max_bytes)
    except (paramiko.SSHException, EOFError, OSError) as error:
        late = time.monotonic() >= deadline
        raise AbortedError(
            "the time allowed for the host was used up"
            if late
            else f"the connection was cut ({_short(error)})"
        ) from None


def _pump(channel: paramiko.Channel, stdin: bytes, deadline: float, max_bytes: int) -> Iterator[bytes]:
    with contextlib.closing(channel):
        channel.settimeout(max(deadline - time.monotonic(), 0.1))
        # A script fits the window of any server; one that does not read it is caught by the deadline.
        channel.sendall(stdin)
        channel.shutdown_write()
        received = 0
        while True:
            while channel.recv_stderr_ready():
                channel.recv_stderr(_CHUNK)
            left = deadline - time.monotonic()
            if left <= 0:
                raise AbortedError("the time allowed for the host was used up")
            channel.settimeout(min(left, 1.0))
            try:
                data = channel.recv(_CHUNK)
            except TimeoutError:
                continue
            if not data:
                if channel.recv_exit_status() == -1:
                    raise AbortedError("the connection was cut")
                return
            received += len(data)
            if received > max_bytes:
                raise AbortedError(f"it sent more than {max_bytes:,} bytes")
            yield data


def execute(
    client: paramiko.SSHClient,
    command: str,
    *,
    timeout_s: float,
    max_bytes: int = 16_000_000,
    stdin: bytes = b"",
) -> tuple[int, bytes, bytes]:
    """Status, standard output and standard error of one command that is given ``stdin``.

    Raises:
        AbortedError: it took too long or sent too much, or the connection broke.
    """
    transport = client.get_transport()
    if transport is None or not transport.is_active():
        raise AbortedError("the connection was cut")
    end = time.monotonic() + timeout_s
    out, err = bytearray(), bytearray()
    try:
        with contextlib.closing(transport.open_session(timeout=10)) as channel:
            channel.exec_command(command)
            channel.settimeout(timeout_s)
            channel.sendall(stdin)
            channel.shutdown_write()
            while not (channel.exit_status_ready() and not channel.recv_ready() and channel.eof_received):
                while channel.recv_stderr_ready():
                    err += channel.recv_stderr(_CHUNK)
                if len(out) + len(err) > max_bytes:
                    raise AbortedError(f"it printed more than {max_bytes:,} bytes")
                left = end - time.monotonic()
                if left <= 0:
                    raise AbortedError(f"it did not end within {timeout_s:g} s")
                channel.settimeout(min(left, 0.2))
                with contextlib.suppress(TimeoutError):
                    data = channel.recv(_CHUNK)
                    out += data
                    if not data:
                        break
            channel.settimeout(max(end - time.monotonic(), 0.1))
            while data := channel.recv_stderr(_CHUNK):
                err += data
            return channel.recv_exit_status(), bytes(out), bytes(err)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise AbortedError(f"the connection was cut ({_short(error)})") from None
