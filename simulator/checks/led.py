"""One mastership of one process in a run: the real object and its model.

The inputs of the model come from here: the set in the process's image, its log's positions, its
clock. Only these are taken from the production code; the model itself tracks what slaves hold, who
may be in step, and whether the lease holds.
"""

from collections.abc import Mapping

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.metadata.image import BrokerImage, ReplicaSetImage
from penstock.node.node import Node
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import Role
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import Hello
from penstock.runtime.ha.server import ServedLink
from simulator.checks.masters.mastership import Log, Mastership, Times
from simulator.run.server import Server

SLACK_MS = 150
"""Largest delay of a check, and of a tick of the broker."""


class Led:
    """One mastership of one process: the real one and its model."""

    def __init__(self, server: Server, real: MasterSet) -> None:
        self.server = server
        self.real = real
        self.set_id = ReplicaSetId(real.member.replica_set_id)
        self.own_id = real.member.own_id
        self.hellos: dict[int, tuple[ServedLink, Hello]] = {}
        """The last one of each slave that was greeted, and where it came."""
        self.asking: dict[int, tuple[ServedLink, Hello]] = {}
        """The last one of each, which may be refused yet."""
        self.is_asking = False
        self.tracked = 0
        """Up to where enough members hold everything, as the master has counted last."""
        self.quiet_ms = self.now_ms
        self.wrong_recorded = "", self.now_ms
        """How the recorded set was misunderstood at the last look, and since when in ms."""
        """Time of its last proposal or answer, or when nothing was overdue."""
        self.model = Mastership(
            own_id=self.own_id,
            leader_epoch=real.leader_epoch,
            times=_times(real.config),
            began_ms=self.now_ms,
            known=real.member.confirm_position,
        )

    @property
    def now_ms(self) -> int:
        """The master's own clock."""
        return self.real._clock.monotonic_ms()  # noqa: SLF001  the very clock that it goes by

    @property
    def image(self) -> ReplicaSetImage | None:
        """The set as the master's process has it applied, while that says that it leads."""
        node = self.server.node
        replica_set = node.image.replica_sets.get(self.set_id) if isinstance(node, Node) else None
        is_it = replica_set is not None and replica_set.leader_epoch == self.real.leader_epoch
        return (
            replica_set
            if is_it and replica_set is not None and replica_set.master == self.own_id
            else None
        )

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerImage]:
        """The brokers as the master's process knows them."""
        node = self.server.node
        return node.image.brokers if isinstance(node, Node) else {}

    @property
    def is_leading(self) -> bool:
        """Whether it decides anything now."""
        member = self.real.member
        is_master = member.role is Role.MASTER and not self.real.is_over
        return is_master and member.leader_epoch == self.real.leader_epoch

    @property
    def is_paused(self) -> bool:
        """Whether it takes no writes since it hands the set over."""
        return not self.real.member.is_master

    def log(self) -> Log:
        """Return the positions of the master's log."""
        member = self.real.member
        own = member.log
        return Log(
            kept_from=own.reach.kept_from,
            end=own.end_position,
            durable=own.durable_position,
            confirmed=member.confirm_position,
            epoch_start=own.epochs[-1][1] if own.epochs else 0,
        )


def _times(config: ReplicationConfig) -> Times:
    return Times(
        lease_ms=config.lease_ms,
        lag_ms=config.replica_lag_time_ms,
        grace_ms=config.disconnect_grace_ms,
        first_grace_ms=config.dial_timeout_ms,
        slack_ms=SLACK_MS,
    )
