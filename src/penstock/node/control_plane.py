"""The control plane of one process: the metadata log, its driver, a controller's duties.

    Raft's files  ─► ReplicatedLog ─► ControllerDriver ─► image      in every process
    peers' links  ─► ControllerService ─► ActiveController           acts where this process leads

A node and a controller process use the same one. A process without a vote follows the log as a
learner; it takes sessions too, since it may get a vote at any time.
"""

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.ids import BrokerId, PeerId, TopicId
from penstock.base.memory import FreeLists
from penstock.base.ports import Clock, Disk, Offload, Randomness, Scheduler
from penstock.controller.active.controller import ActiveController
from penstock.controller.controller import Controller
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import METADATA_LEVELS
from penstock.controller.replicated_log import Leadership
from penstock.net.peer import PeerHello, PeerLink, PeerSecurity
from penstock.node.hand_over import hand_lead_over
from penstock.node.layout import METADATA_DIRECTORY
from penstock.node.pages.sync_state_watch import SyncStateWatch
from penstock.node.peer_relief import PeerRelief
from penstock.node.settings.settings import NodeSettings
from penstock.raft.configuration import Configuration
from penstock.raft.ids import DirectoryId
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.io.randomness import random_uuid, token_text
from penstock.runtime.raft.ports import RaftPorts
from penstock.runtime.raft.raft_log import RaftLog
from penstock.runtime.raft.storage import FirstStart, RaftStorage
from penstock.runtime.raft.transport import PURPOSE as RAFT_PURPOSE
from penstock.runtime.raft.transport import PeerTransport, parse_address
from penstock.runtime.session.door_check import DoorCheck
from penstock.runtime.session.messages import PURPOSE as SESSION_PURPOSE
from penstock.runtime.session.operator_ports import OperatorPorts
from penstock.runtime.session.service import BrainPorts, ControllerService
from penstock.runtime.session.service_features import FeatureTable
from penstock.runtime.session.service_membership import membership_by

Address = tuple[str, int]

_ADVICE = (
    "Alone: restore a copy. One of several controllers: `penstock controller remove`, then add it "
    "again with an empty directory; an older copy may have forgotten a vote. A broker: start it "
    "with empty directories, its sets are copied from their masters"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPorts:
    """Ports of the process that all services share."""

    clock: Clock
    scheduler: Scheduler
    randomness: Randomness
    disk: Disk
    """Of the first data directory."""
    workers: Offload
    security: PeerSecurity
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]


class ControlPlane:
    """The control plane. `open` once, then `start`, then `close`."""

    def __init__(
        self, settings: NodeSettings, cluster_id: str, image: ClusterImage, ports: ProcessPorts
    ) -> None:
        self.own_id = BrokerId(settings.node.broker_id)
        self._peer_id = PeerId(self.own_id)
        self._settings = settings
        self._cluster_id = cluster_id
        self._image = image
        self._ports = ports
        self._transport: PeerTransport | None = None
        self.sync_state_watch = SyncStateWatch(image)
        self._relief = PeerRelief(
            ports.security.turn.frames,
            ports.scheduler,
            ports.workers,
            FreeLists(ports.clock.monotonic_us),
        )
        self.is_open = False
        self._voters = {voter.peer_id: voter for voter in settings.cluster.voter_addresses()}
        self.log: RaftLog
        self.driver: ControllerDriver
        self.service: ControllerService
        self.brain: ActiveController

    @property
    def is_only_voter(self) -> bool:
        """Whether this process holds the only copy of the metadata."""
        return tuple(self.controllers()) == (self._peer_id,)

    def hello(self, purpose: bytes = b"") -> PeerHello:
        """Return the identity of this process, for links in both directions.

        It contains the metadata levels that the process reads.
        """
        return PeerHello(purpose, self._cluster_id, self.own_id, METADATA_LEVELS.packed())

    @property
    def security(self) -> PeerSecurity:
        """What this process proves itself to its peers with."""
        return self._ports.security

    def frame_turns(self) -> dict[str, float]:
        """Return how long handling a frame of a peer took at most lately, in seconds by kind."""
        return self._ports.security.turn.longest()

    def open(self, directory: Path) -> None:
        """Read the metadata log in `directory`. Waits for the disk.

        Raises ConfigError when it can not be used.
        """
        try:
            self.log = self._open_log()
        except (CorruptMetadata, UnsupportedMetadata) as error:
            raise ConfigError(f"{directory}: {error}; it is not changed. {_ADVICE}") from error
        controller = Controller(
            config=self._settings.controller,
            image=self._image,
            new_topic_id=lambda: TopicId(random_uuid(self._ports.randomness).bytes),
            wall_ms=self._ports.clock.wall_ms,
        )
        self.driver = ControllerDriver(controller, self.log)
        self.service = ControllerService(
            own_id=self.own_id,
            driver=self.driver,
            make_brain=self._make_brain,
            spawn=self._ports.spawn,
            operators=OperatorPorts(
                change_membership=membership_by(self.log.voters),
                quorum=self._quorum,
                features=self._feature_table(),
            ),
        )
        self._door_check = DoorCheck(
            self._image,
            is_awaited=self.brain.is_awaited,
            on_refused=self.brain.on_refused,
            spawn=self._ports.spawn,
        )
        self.log.on_leadership = self._on_leadership
        self.is_open = True

    def _feature_table(self) -> FeatureTable:
        return FeatureTable(
            own_id=self.own_id,
            image=self._image,
            voters=self.controllers,
            said=self._said_levels,
            submit=self.driver.submit,
            trial=self.driver.trial,
        )

    def _make_brain(self, ports: BrainPorts) -> ActiveController:
        self.brain = ActiveController(
            own_id=self.own_id,
            image=self._image,
            config=self._settings.controller,
            clock=self._ports.clock,
            scheduler=self._ports.scheduler,
            ports=ports,
        )
        return self.brain

    def _on_leadership(self, leadership: Leadership) -> None:
        self._image.controller_id = leadership.leader_id
        self.service.on_leadership(leadership)
        if leadership.is_leader:
            self._door_check.begin()

    def _open_log(self) -> RaftLog:
        addresses = {peer_id: voter.address for peer_id, voter in self._voters.items()}
        storage = RaftStorage(
            self._ports.disk,
            METADATA_DIRECTORY,
            own_id=self._peer_id,
            first=FirstStart(
                members=Configuration.of(addresses or {self._peer_id: ""}),
                new_directory_id=lambda: DirectoryId(token_text(self._ports.randomness, 16)),
            ),
        )
        self._transport = PeerTransport(
            lambda: self.hello(RAFT_PURPOSE),
            self._ports.security,
            self._ports.clock,
            self._settings.raft,
        )
        ports = RaftPorts(
            offload=self._ports.workers,
            scheduler=self._ports.scheduler,
            random_below=self._ports.randomness.below,
            address_of=self._address,
        )
        return RaftLog(self._peer_id, storage, self._transport, ports, self._settings.raft)

    def start(self) -> None:
        """Replay the log and take part in the cluster. Raises MetadataError."""
        self.driver.start()
        self.brain.start()

    @property
    def purposes(self) -> dict[bytes, Callable[[PeerLink], None]]:
        """Purposes of links on the controller port, with their handlers."""
        found: dict[bytes, Callable[[PeerLink], None]] = {SESSION_PURPOSE: self.service.on_link}
        if self._transport is not None:
            found[RAFT_PURPOSE] = self._transport.take_link
        return found

    def controllers(self) -> Mapping[PeerId, Address]:
        """Return the addresses of all controllers, as far as this process knows."""
        voters = {peer.peer_id: peer.address for peer in self.log.status().peers if peer.is_voter}
        # Until the log names voters, those of the settings: they found the group or know who votes.
        voters = voters or dict.fromkeys(self._voters, "")
        return {peer_id: self._address(peer_id, text) for peer_id, text in voters.items()}

    def _address(self, peer_id: PeerId, text: str) -> Address:
        """Return a voter's address; that of the settings if the log was begun by a node alone."""
        known = self._voters.get(peer_id)
        if text or (known is None and peer_id != self._peer_id):
            return parse_address(text)
        if known is not None:
            return known.host, known.port
        node, cluster = self._settings.node, self._settings.cluster
        return cluster.advertised_host or node.advertised()[0], cluster.controller_port

    def _quorum(self) -> str:
        """Return the voters and learners of the metadata log, as JSON."""
        status = asdict(self.log.status())
        for one in status["peers"]:
            host, port = self._address(one["peer_id"], one["address"])
            one["address"] = f"{host}:{port}" if port else ""
        return json.dumps(status)

    def _said_levels(self) -> Iterable[tuple[int, int]]:
        """Yield (peer id, packed levels) as peers announced them, on any link."""
        yield from self.service.said_levels()
        if self._transport is not None:
            yield from self._transport.said_levels()

    async def hand_over(self) -> None:
        """Transfer the lead to another controller."""
        if self.is_open:
            await hand_lead_over(self.log)

    def close(self) -> None:
        """Leave the cluster and close the log."""
        self._relief.stop()
        if not self.is_open:
            return
        self.is_open = False
        self.brain.stop()
        self.service.stop()
        self.log.close()
