"""The local launcher behind `penstock up`: starts nodes, watches and stops them.

Steps: lock DIR, check the ports, write the settings, start the nodes, poll them until they answer,
print the `ready` line, then wait for a signal. Only the ready line goes to stdout, so that a script
can read it; warnings go to stderr and everything else to the logs.

One directory has one launcher. If the launcher is killed its nodes end too (see `penstock node
--ends-with-parent`).
"""

import asyncio
import contextlib
import fcntl
import os
import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.endpoints import NamedEndpoint
from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from penstock.cli.launch.cluster_files import (
    CLUSTER_FILE,
    CONTROLLER_PORT_DISTANCE,
    HA_PORT_DISTANCE,
    check_founders,
    local_cluster,
    note_founded,
    secret_file,
)
from penstock.cli.launch.disk_room import check_room
from penstock.cli.launch.node_files import settings_toml, write_whole
from penstock.cli.launch.node_process import NodeProcess, ended, make_directories, say
from penstock.cli.launch.ports import why_unusable
from penstock.cli.launch.probe import Login, LoginRefused, brokers_seen
from penstock.cli.launch.secured import DIRECTORY as SECURITY_DIRECTORY
from penstock.cli.launch.secured import USER, Secured, check_closed, secured
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.node.access.exposure import check_exposure
from penstock.node.layout import METADATA_DIRECTORY
from penstock.node.settings.settings import NodeSettings, load_settings
from penstock.node.settings.sources import parse_overrides
from penstock.remoting.config import LISTENER_NAME
from penstock.runtime.io.end_signals import end_signals

PROBE_INTERVAL_SECONDS = 0.1
STILL_STARTING_SECONDS = 30.0
BROKER_ID_FIRST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start. Ports of node i: `port` + i and `metrics_port` + i.

    In a cluster also `port` + 100 + i for controllers and `port` + 200 + i for slaves. Ports for
    RocketMQ's clients are moved by i, too.
    """

    directory: Path
    nodes: int
    port: int
    metrics_port: int
    restart: bool
    overrides: Sequence[str]
    replicas: int = 1
    secure: bool = False
    """Whether clients talk over TLS and prove who they are."""

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the nodes, in order."""
        return [BROKER_ID_FIRST + number for number in range(self.nodes)]


def launch(plan: Plan) -> int:
    """Run the nodes until SIGTERM or SIGINT; return an exit code. Raises ConfigError."""
    with _own(plan.directory):
        with _deciding_nothing_if_refused(plan.directory):
            files = secured(plan.directory, is_wanted=plan.secure)
            nodes = [_prepare(plan, number, files) for number in range(plan.nodes)]
            metadata = _metadata(nodes)
            check_founders(plan.directory, metadata)
            note_founded(plan.directory, metadata)  # in case the last launcher was killed before
            check_room(
                [(directory / "data", settings.log) for _, directory, settings in nodes],
                sets=plan.replicas,
            )
        return asyncio.run(_Launcher(plan, nodes, files).run())


@contextlib.contextmanager
def _deciding_nothing_if_refused(directory: Path) -> Iterator[None]:
    """Remove the decisions of a first start if it is refused before a node was started."""
    path, security = directory / CLUSTER_FILE, directory / SECURITY_DIRECTORY
    is_first, is_open = not path.exists(), not security.exists()
    try:
        yield
    except ConfigError:
        if is_first:
            path.unlink(missing_ok=True)
        if is_open and security.exists():
            shutil.rmtree(security)
        raise


def _metadata(nodes: Sequence[tuple[int, Path, NodeSettings]]) -> dict[int, Path]:
    """Return the directory of each node's metadata log."""
    return {
        broker_id: Path(settings.node.data_directories[0]) / METADATA_DIRECTORY
        for broker_id, _, settings in nodes
    }


@contextlib.contextmanager
def _own(directory: Path) -> Iterator[None]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise ConfigError(
            f"{directory} can not be used: {error.strerror}: name another place with --data"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigError(
            f"{directory} is in use by another penstock up: stop it, or name another place "
            "with --data"
        ) from None
    finally:
        os.close(lock)


def _prepare(plan: Plan, number: int, files: Secured | None) -> tuple[int, Path, NodeSettings]:
    """Write the files of one node; return its broker id, its directory and its settings."""
    broker_id = BROKER_ID_FIRST + number
    directory = plan.directory.absolute() / f"node-{broker_id}"
    make_directories(directory)
    metrics_port = plan.metrics_port + number if plan.metrics_port else 0
    signed = _signed(plan)
    if files is not None and signed:
        files.make_access_keys()
    overrides = [
        f"node.broker_id={broker_id}",
        f"node.machine=node-{broker_id}",
        f"node.port={plan.port + number}",
        f"node.metrics_port={metrics_port}",
        f"node.data_directories={directory / 'data'}",
        *_cluster_overrides(plan, number),
        *(files.overrides(broker_id, signed=signed) if files else ()),
        *plan.overrides,
    ]
    settings = load_settings(None, environment={}, overrides=overrides)
    moved = (("remoting", settings.remoting.port), ("grpc", settings.grpc.port))
    if any(port for _, port in moved):
        overrides += [f"{section}.port={port + number}" for section, port in moved if port]
        settings = load_settings(None, environment={}, overrides=overrides)
    values: dict[str, dict[str, object]] = {}
    for section, key, _ in parse_overrides(overrides):
        values.setdefault(section, {})[key] = getattr(getattr(settings, section), key)
    write_whole(directory / "node.toml", settings_toml(values))
    # The node reads the same file and environment, so wrong values are rejected here already.
    settings = load_settings(directory / "node.toml", environment=os.environ)
    if settings.node.broker_id != broker_id:
        raise ConfigError("penstock up numbers the nodes itself: leave node.broker_id out")
    settings.cluster.read_secrets()  # so that an error is reported once and not by each node
    check_exposure(settings)
    if files is not None:
        check_closed(settings)
        files.certify(settings)
    _check_port(settings.node.host, settings.node.port, "--port")
    if settings.node.metrics_port:
        _check_port(settings.node.metrics_host, settings.node.metrics_port, "--metrics-port")
    for one in (*settings.remoting.bound(), *settings.grpc.bound()):
        _check_port(one.host, one.port, f"--set {one.name}.port")
    for port in (settings.cluster.controller_port, settings.cluster.ha_port):
        if port:
            _check_port(settings.cluster.host or settings.node.host, port, "--port")
    return broker_id, directory, settings


def _signed(plan: Plan) -> list[str]:
    """Return the listeners for RocketMQ's clients that the nodes get, the last word counts."""
    ports = {
        section: value for section, key, value in parse_overrides(plan.overrides) if key == "port"
    }
    return [name for name in (LISTENER_NAME, GRPC) if ports.get(name, "0") != "0"]


def _cluster_overrides(plan: Plan, number: int) -> list[str]:
    """Return the settings that make the nodes one cluster; none for a single node."""
    if plan.nodes == 1 and not (plan.directory / CLUSTER_FILE).exists():
        return []
    cluster = local_cluster(plan.directory, plan.broker_ids)
    first = plan.port + CONTROLLER_PORT_DISTANCE - BROKER_ID_FIRST
    voters = [f"{voter}@127.0.0.1:{first + voter}" for voter in cluster.voters]
    return [
        f"node.cluster_id={cluster.cluster_id}",
        f"cluster.voters={','.join(voters)}",
        f"cluster.controller_port={plan.port + CONTROLLER_PORT_DISTANCE + number}",
        f"cluster.ha_port={plan.port + HA_PORT_DISTANCE + number}",
        f"cluster.secret_file={secret_file(plan.directory).absolute()}",
        f"controller.default_replication_factor={plan.replicas}",
        f"topic.min_insync_replicas={min(2, max(1, plan.replicas - 1))}",
    ]


def _check_port(host: str, port: int, flag: str) -> None:
    if why := why_unusable(host, port):
        raise ConfigError(
            f"{host}:{port} can not be used: {why}: "
            f"stop what uses it, or choose another with {flag}"
        )


def reachable_host(host: str) -> str:
    """Return the address at which this machine reaches what is bound to `host`."""
    every = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound
    return every.get(host, host)


class _Launcher:
    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[tuple[int, Path, NodeSettings]],
        files: Secured | None,
    ) -> None:
        self._plan = plan
        self._prepared = nodes
        self._files = files
        self._login = None if files is None else files.login()

    async def run(self) -> int:
        stop = asyncio.Event()
        with end_signals((signal.SIGTERM, signal.SIGINT), lambda _number: stop.set()):
            return await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> int:
        nodes = [
            NodeProcess(
                broker_id=broker_id,
                directory=directory,
                address=(reachable_host(settings.node.host), settings.node.port),
                restart=self._plan.restart,
            )
            for broker_id, directory, settings in self._prepared
        ]
        running = [asyncio.create_task(node.keep_running()) for node in nodes]
        announcing = asyncio.create_task(self._announce(nodes))
        stopping = asyncio.create_task(stop.wait())
        await _until_stopped_or_ended(stopping, running)
        announcing.cancel()
        stopping.cancel()
        await asyncio.gather(*(node.stop() for node in nodes))
        codes = await asyncio.gather(*running)
        return _exit_code(nodes, codes)

    async def _announce(self, nodes: Sequence[NodeProcess]) -> None:
        await _until_all_answer(nodes, self._login)
        note_founded(self._plan.directory, _metadata(self._prepared))
        addresses = ",".join(f"{host}:{port}" for host, port in (node.address for node in nodes))
        how = "" if self._files is None else f" {self._files.told()}"
        prepared = [settings for *_, settings in self._prepared]
        how += _told("rocketmq", [one for each in prepared for one in each.remoting.told()])
        how += _told("grpc", [one for each in prepared for one in each.grpc.told()])
        if self._files is not None and _signed(self._plan):
            how += f" access-keys-file={shlex.quote(str(self._files.access_keys_file))}"
        with contextlib.suppress(OSError):
            print(f"ready bootstrap={addresses}{how}", flush=True)


def _told(kind: str, served: Sequence[NamedEndpoint]) -> str:
    """Return what a kind of RocketMQ's clients is to be told; nothing if it is not served."""
    return f" {kind}={';'.join(f'{one.host}:{one.port}' for one in served)}" if served else ""


async def _until_stopped_or_ended(
    stopping: asyncio.Task[bool], running: Sequence[asyncio.Task[int]]
) -> None:
    """Return on a signal, if a node can never run, or if no node is running any more."""
    left = set(running)
    while left:
        done, _ = await asyncio.wait({stopping, *left}, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            return
        ended_nodes = done & left
        left -= ended_nodes
        if any(node.exception() or node.result() == EXIT_USAGE for node in ended_nodes):
            return


async def _until_all_answer(nodes: Sequence[NodeProcess], login: Login | None = None) -> None:
    """Return once every node answers and knows all the others.

    It may know more: brokers of an earlier start with more nodes, which are away now.
    """
    loop = asyncio.get_running_loop()
    expected = {node.broker_id for node in nodes}
    waiting = list(nodes)
    warn_at = loop.time() + STILL_STARTING_SECONDS
    while waiting:
        refusing = set()
        for node in waiting:
            try:
                node.has_answered = expected <= await brokers_seen(*node.address, login)
            except LoginRefused:
                refusing.add(node)
        waiting = [node for node in waiting if not node.has_answered]
        if waiting and loop.time() > warn_at:
            say(_why_not(waiting[0], is_refusing=waiting[0] in refusing))
            warn_at += STILL_STARTING_SECONDS
        if waiting:
            await asyncio.sleep(PROBE_INTERVAL_SECONDS)


def _why_not(node: NodeProcess, *, is_refusing: bool) -> str:
    """Return what is said of a node that has not answered for long."""
    if is_refusing:
        return (
            f"node {node.broker_id} runs and does not let user {USER} in: write the password that"
            f" the user has now into {SECURITY_DIRECTORY}/{USER}.password"
        )
    return f"node {node.broker_id} is still starting; its log shows the progress"


def _exit_code(nodes: Sequence[NodeProcess], codes: Sequence[int]) -> int:
    """Return 0 if every node ended cleanly."""
    for node, code in zip(nodes, codes, strict=True):
        # SIGTERM can arrive before the node handles it: that is a clean end as well. Nodes get it
        # from here too, when another can never run: that one is to be named.
        if code in {EXIT_OK, -signal.SIGTERM}:
            continue
        say(f"node {node.broker_id} {ended(code)}; its log says why")
        return EXIT_USAGE if code == EXIT_USAGE else EXIT_FAILED
    return EXIT_OK
