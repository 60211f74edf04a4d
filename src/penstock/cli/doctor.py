"""`penstock doctor`: check whether this machine has what nodes need.

It changes nothing. `ok` is fine, `look` works and may surprise, `wrong` prevents a node from
starting or from being durable or reachable; with any `wrong` the exit code is 1.
"""

import ctypes
import errno
import os
import platform
import resource
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import EXIT_FAILED
from penstock.cli.operator import DATA_DEFAULT, ConfigOption, DataOption
from penstock.cli.output import Output, OutputOption, print_rows
from penstock.cli.up import NODES_MAX

if TYPE_CHECKING:
    from penstock.node.settings.settings import NodeSettings

FILES_WANTED = 4096
"""For connections and open segment files; Debian's usual limit of 1,024 is reached soon."""
TIMEX_BYTES = 512
"""More than the size of `struct timex` on any system."""
TIME_ERROR = 5
"""The result of adjtimex while the clock is not synchronised."""
CONNECT_SECONDS_MAX = 1.0
HEALTH_SECONDS = 3.0
HEALTH_BYTES_MAX = 1 << 20
NOT_TOLD = 0
"""In place of a process id."""


class State(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    LOOK = "look"
    WRONG = "wrong"


class Found(NamedTuple):
    """One finding."""

    check: str
    state: State
    finding: str


def run_doctor(
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            max=NODES_MAX,
            help="Nodes that `penstock up` is to start, where none has yet.",
        ),
    ] = 1,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check disk, ports, names, build, secret, clients, clock and kernel of this machine."""
    told = examine(settings_of(config, data), data, nodes=nodes, is_given=config is not None)
    found = list(dict.fromkeys(told))  # nodes that share a file or a setting would repeat it
    print_rows([one._asdict() for one in found], Found._fields, output)
    if any(one.state is State.WRONG for one in found):
        raise typer.Exit(EXIT_FAILED)


def settings_of(config: Path | None, data: Path) -> "list[NodeSettings]":
    """Return the settings of the process, of all nodes of `penstock up`, or those of a new one."""
    from penstock.node.settings.settings import load_settings

    paths = [config] if config is not None else sorted(data.glob("node-*/node.toml"))
    if paths:
        return [load_settings(path, environment=os.environ) for path in paths]
    fresh = f"node.data_directories={data.absolute() / 'node-1' / 'data'}"
    return [load_settings(None, environment=os.environ, overrides=[fresh])]


def examine(
    settings: "list[NodeSettings]", data: Path, *, nodes: int, is_given: bool
) -> Iterator[Found]:
    """Yield all findings; `is_given`: the settings were given, so their directories must exist."""
    yield build()
    first = settings[0]
    is_there = any(Path(path).exists() for path in first.node.data_directories)
    planned = 1 if is_there or first.cluster.ha_port else nodes
    for setting in settings:
        for directory in setting.node.data_directories:
            sets = max(1, min(3, nodes))
            yield disk(Path(directory), setting, nodes=nodes, sets=sets, must_exist=is_given)
        for number in range(planned):
            yield from ports(wanted_ports(setting, number, is_cluster=planned > 1), setting)
        yield secret(setting, nodes=planned)
        yield clients(setting)
        yield pages(setting)
        yield from connections(setting)
        yield from cluster_id(setting)
    yield host_name(settings[0])
    yield clock()
    yield kernel(existing(data))
    yield open_files()


def build() -> Found:
    from penstock.node.pages.build_info import COST, compiled_text, version_line

    text = version_line()
    if compiled_text() == "compiled":
        return Found("build", State.OK, text)
    return Found("build", State.LOOK, f"{text}: {COST}")


def existing(path: Path) -> Path:
    """Return the path, or its nearest existing parent."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def disk(
    directory: Path, settings: "NodeSettings", *, nodes: int, sets: int, must_exist: bool
) -> Found:
    from penstock.cli.launch.disk_room import mb, needed_bytes, new_nodes
    from penstock.node.identity import absence

    if must_exist and not directory.exists():
        return Found("disk", State.WRONG, absence(directory))
    place = existing(directory)
    if not os.access(place, os.W_OK | os.X_OK):
        return Found("disk", State.WRONG, f"{place} can not be written to by this user")
    free = shutil.disk_usage(place).free
    reserve = settings.log.reserve_bytes
    if any(directory.glob("set-*")):
        state = State.OK if free > 2 * reserve else State.WRONG
        return Found("disk", state, f"{directory} has {mb(free)} free; {mb(reserve)} stay free")
    needed = nodes * needed_bytes(settings.log, sets=sets) + reserve
    state = State.OK if free >= needed else State.WRONG
    text = f"{place} has {mb(free)} free; {new_nodes(nodes)} {mb(needed)}"
    return Found("disk", state, text)


class Port(NamedTuple):
    """A port that a node listens on, under the name of its setting; 0 for none."""

    setting: str
    host: str
    port: int


def wanted_ports(settings: "NodeSettings", number: int, *, is_cluster: bool) -> list[Port]:
    """Return the ports of node `number` after this one, as `penstock up` assigns them."""
    from penstock.cli.launch.cluster_files import CONTROLLER_PORT_DISTANCE, HA_PORT_DISTANCE

    node, cluster = settings.node, settings.cluster
    peers = cluster.host or node.host
    controller, ha = cluster.controller_port, cluster.ha_port
    if is_cluster:
        controller = node.port + CONTROLLER_PORT_DISTANCE + number
        ha = node.port + HA_PORT_DISTANCE + number
    metrics = node.metrics_port + number if node.metrics_port else 0
    return [
        Port("node.port", node.host, node.port + number),
        Port("node.metrics_port", node.metrics_host, metrics),
        Port("cluster.controller_port", peers, controller),
        Port("cluster.ha_port", peers, ha),
        *(
            Port(f"node.listeners {listener.name}", listener.host, listener.port)
            for listener in node.named_listeners()
        ),
        *(
            Port(f"{one.name}.port", one.host, one.port + number)
            for one in (*settings.remoting.bound(), *settings.grpc.bound())
        ),
    ]


def ports(wanted: list[Port], settings: "NodeSettings") -> Iterator[Found]:
    from penstock.cli.launch.launcher import reachable_host

    directory = Path(settings.node.data_directories[0])
    # Nodes of `penstock serve` have directories of their own below the one that is named.
    owners = (owner_of(directory), owner_of(directory / f"node-{settings.node.broker_id}"))
    owner = next((one for one in owners if one is not None), None)
    for name, host, port in wanted:
        if port:
            yield one_port(name, host, port, reachable_host(host), owner)


def owner_of(directory: Path) -> int | None:
    """Return the id of the process that runs on a data directory; None if none.

    NOT_TOLD if this user may not see it.

    The lock file has the process id. Whether that process has the file open is checked without
    taking the lock, which would disturb a node that is just starting.
    """
    from penstock.node.identity import LOCK_NAME

    lock = (directory / LOCK_NAME).resolve()
    try:
        process = int(lock.read_text())
        files = list(Path(f"/proc/{process}/fd").iterdir())
    except PermissionError:
        return NOT_TOLD
    except (OSError, ValueError):
        return None
    return process if any(_leads_to(file, lock) for file in files) else None


def _leads_to(file: Path, target: Path) -> bool:
    try:
        return file.readlink() == target
    except OSError:  # the file was closed meanwhile
        return False


def one_port(name: str, host: str, port: int, reachable: str, owner: int | None) -> Found:
    """Check one port; a port in use is fine if the node that it belongs to is running."""
    from penstock.node.settings.config import PORT_MAX

    if port > PORT_MAX:
        return Found("port", State.WRONG, f"{name} {port}: ports end at {PORT_MAX}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family, reuse_port=False):
            return Found("port", State.OK, f"{name} {host}:{port} is free")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            text = f"{name} {host}:{port} can not be used: {os.strerror(error.errno or 0)}"
            return Found("port", State.WRONG, text)
    return taken_port(f"{name} {host}:{port}", (reachable, port), owner)


def taken_port(name: str, address: tuple[str, int], owner: int | None) -> Found:
    if owner == NOT_TOLD:
        text = "is taken, perhaps by the node itself: this user can not see what it has open"
        return Found("port", State.LOOK, f"{name} {text}")
    if owner is None:
        text = "is taken by another program: stop it, or choose another port"
        return Found("port", State.WRONG, f"{name} {text}")
    try:
        with socket.create_connection(address, CONNECT_SECONDS_MAX):
            return Found("port", State.OK, f"{name}: its node runs, process {owner}")
    except OSError:
        return Found("port", State.LOOK, f"{name}: it is taken, and nobody answers")


def cluster_id(settings: "NodeSettings") -> Iterator[Found]:
    from penstock.node.identity import check_cluster_is_named

    try:
        check_cluster_is_named(settings.node.cluster_id, settings.cluster.voter_addresses())
    except ConfigError as error:
        yield Found("cluster", State.WRONG, str(error))


def secret(settings: "NodeSettings", *, nodes: int) -> Found:
    path = settings.cluster.secret_file
    if not path and nodes > 1:
        return Found("secret", State.OK, "none yet: penstock up makes one for its owner alone")
    if not path:
        return Found("secret", State.OK, "none: a node alone has no peers")
    try:
        accepted = len(settings.cluster.read_secrets())
    except ConfigError as error:
        return Found("secret", State.WRONG, str(error))
    mode = Path(path).stat().st_mode
    if mode & stat.S_IRWXG:
        return Found("secret", State.LOOK, f"{path} can be read or written by its group")
    if accepted > 1:
        said = f"{path} is being replaced: {accepted} secrets are accepted, those of {path}.* too"
        return Found("secret", State.LOOK, said)
    return Found("secret", State.OK, f"{path} is for its owner alone")


def clients(settings: "NodeSettings") -> Found:
    """Check who may come in from other machines, and whether anybody asks what they do then."""
    from penstock.access.config import AuthoriserKind
    from penstock.node.access.exposure import asks_clients, check_exposure, reached

    try:
        check_exposure(settings)
    except ConfigError as error:
        return Found("clients", State.WRONG, str(error))
    there = list(reached(settings))
    strangers = [one for one in there if not asks_clients(settings.security, one.name)]
    if strangers:
        names = ", ".join(f"{one.name} ({one.host}:{one.port})" for one in strangers)
        text = f"everybody is let in at {names}: security.open_listeners permits it"
        return Found("clients", State.LOOK, text)
    if there and settings.access.authorizer is AuthoriserKind.OFF:
        text = "who proves who they are may do everything: access.authorizer is off"
        return Found("clients", State.LOOK, text)
    if there:
        return Found("clients", State.OK, "prove who they are, and may do what rules permit")
    return Found("clients", State.OK, "this machine alone reaches the node")


def pages(settings: "NodeSettings") -> Found:
    """Check who may read the pages of the HTTP port."""
    from penstock.base.endpoints import PAGES_LISTENER
    from penstock.node.access.exposure import is_of_this_machine

    node = settings.node
    if not node.metrics_port:
        return Found("pages", State.OK, "node.metrics_port is 0: there are none")
    if settings.security.pages_have_tls:
        return pages_over_tls(settings)
    if is_of_this_machine(node.metrics_host):
        return Found("pages", State.OK, "this machine alone reads metrics")
    where = f"{node.metrics_host}:{node.metrics_port}"
    text = f"everybody who reaches {where} reads metrics, with names of topics and clients: set"
    say = f"{text} security.listener_security_protocol_map={PAGES_LISTENER}:SSL"
    return Found("pages", State.LOOK, say)


def pages_over_tls(settings: "NodeSettings") -> Found:
    """Check the certificate, ask for a page, and say who may read others."""
    from penstock.base.endpoints import PAGES_LISTENER
    from penstock.node.access.certificates import tls_context

    security = settings.security
    own = security.of_listener(PAGES_LISTENER)
    where = f"{settings.node.metrics_host}:{settings.node.metrics_port}"
    try:
        tls_context(own)
    except ConfigError as error:
        return Found("pages", State.WRONG, str(error))
    if not answers_over_tls(settings):
        text = f"{where} is taken, and /health does not answer with this certificate: restart it"
        return Found("pages", State.LOOK, text)
    if PAGES_LISTENER in security.open_listeners:
        text = f"everybody who reaches {where} reads metrics: security.open_listeners permits it"
        return Found("pages", State.LOOK, text)
    if own.ssl_client_auth == "none":
        text = "other machines read /health and /ready alone, since no certificate is asked for"
        return Found("pages", State.OK, text)
    return Found("pages", State.OK, "other machines need a certificate to read metrics")


def answers_over_tls(settings: "NodeSettings") -> bool:
    """Whether what listens at the HTTP port answers with this certificate; True if nobody does."""
    import asyncio

    from penstock.cli.launch.launcher import reachable_host
    from penstock.cli.machine.http_get import get, tls_of_pages

    address = reachable_host(settings.node.metrics_host), settings.node.metrics_port
    try:
        socket.create_connection(address, CONNECT_SECONDS_MAX).close()
    except OSError:
        return True
    tls = tls_of_pages(settings.security)
    asked = get(address, "/health", seconds=HEALTH_SECONDS, bytes_max=HEALTH_BYTES_MAX, tls=tls)
    return bool(asyncio.run(asked).status)


def connections(settings: "NodeSettings") -> Iterator[Found]:
    """Check that the bounds of connections can hold, and who may end those of others."""
    from penstock.net.sockets import DESCRIPTOR_RESERVE
    from penstock.node.access.exposure import asks_clients

    most, name = settings.net.connections_max, settings.net.protected_listener
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)  # a node raises the soft limit to it
    if files != resource.RLIM_INFINITY and files - DESCRIPTOR_RESERVE < most:
        wanted = most + DESCRIPTOR_RESERVE
        text = f"fewer than net.connections_max, {most}: raise the limit (ulimit -Hn {wanted})"
        yield Found("connections", State.LOOK, text)
    if name and not asks_clients(settings.security, name):
        text = f"{name} is protected and asks nobody who they are: who gets in can end others"
        yield Found("connections", State.LOOK, text)
    elif name:
        yield Found("connections", State.OK, f"{most} at most, of which some are kept for {name}")
    else:
        yield Found("connections", State.OK, f"{most} at most, none kept for who looks after them")


def host_name(settings: "NodeSettings") -> Found:
    name, _ = settings.node.advertised()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        text = f"clients are told {name}, which does not resolve here: set node.advertised_host"
        return Found("host name", State.WRONG, text)
    own = socket.gethostname()
    try:
        socket.getaddrinfo(own, None)
    except OSError:
        text = f"clients are told {name}; this machine's own name, {own}, does not resolve"
        return Found("host name", State.LOOK, text)
    return Found("host name", State.OK, f"clients are told {name}; {own} resolves")


def clock() -> Found:
    """Check that the clock is synchronised, as the kernel reports it: retention depends on it."""
    try:
        answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (OSError, AttributeError):
        return Found("clock", State.LOOK, "the kernel does not tell whether it is kept right")
    if answer == TIME_ERROR:
        text = "nothing keeps the clock right (NTP): retention may delete too early or too late"
        return Found("clock", State.LOOK, text)
    return Found("clock", State.OK, "kept right")


def kernel(directory: Path) -> Found:
    """Check for non-blocking reads and for files allocated before they are written."""
    missing = []
    with tempfile.TemporaryFile(dir=directory if os.access(directory, os.W_OK) else None) as file:
        file.write(b"x")
        file.flush()
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        except (OSError, AttributeError):
            missing.append("reads that do not wait (RWF_NOWAIT)")
        try:
            os.posix_fallocate(file.fileno(), 0, 1 << 16)
        except (OSError, AttributeError):
            missing.append("files allocated ahead (fallocate)")
    release = f"{platform.system()} {platform.release()}"
    if missing:
        return Found(
            "kernel", State.LOOK, f"{release} here without {' and '.join(missing)}: slower"
        )
    return Found("kernel", State.OK, f"{release}: reads that do not wait, files allocated ahead")


def open_files() -> Found:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_WANTED:
        text = f"{soft} open files: raise the limit for many connections (ulimit -n {FILES_WANTED})"
        return Found("open files", State.LOOK, text)
    return Found("open files", State.OK, f"{soft} at most")
