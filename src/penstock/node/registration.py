"""The node's SessionOwner: registers the broker, reports, and carries out controllers' requests.

    no controller knows this incarnation ─► CreateCluster, RegisterBroker, RegisterReplica each
    heartbeat ◄── reports     probe, transfer ◄──► ReplicaManager

The broker registers whenever the active controller asks for it: at the first heartbeat, after it
was fenced, and after a change of the active controller, if the new one does not know it.
"""

import logging
from collections.abc import Callable

from penstock.base.ids import BrokerId
from penstock.broker.append.producer_ids import ProducerIdPool
from penstock.controller.commands.access.commands import AlterScram
from penstock.controller.commands.command import CreateCluster, RegisterBroker
from penstock.controller.errors import BrokerIdTaken
from penstock.controller.port import ControllerPort
from penstock.controller.session import (
    PrepareTransfer,
    ProbeSets,
    ReleasePromises,
    SetReport,
    TransferReady,
)
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.replica_manager import ReplicaManager

log = logging.getLogger(__name__)


class Registration:
    """The SessionOwner of a node. `manager` and `controller` must be set before sessions start."""

    def __init__(
        self,
        cluster_id: str,
        broker: Callable[[], RegisterBroker],
        producer_ids: ProducerIdPool,
        on_taken: Callable[[str], None],
        first_users: Callable[[], AlterScram | None] = lambda: None,
    ) -> None:
        """`broker` returns the current registration; `on_taken` ends the process when its broker id
        is registered for another identity, which waiting cannot change. `first_users` returns the
        users to make, if the cluster has none.
        """
        self._cluster_id = cluster_id
        self._broker = broker
        self._producer_ids = producer_ids
        self._on_taken = on_taken
        self._first_users = first_users
        self.manager: ReplicaManager
        self.controller: ControllerPort
        self.broker_epoch = -1

    async def register(self) -> None:
        """Register this broker and its replicas. Raises MetadataError."""
        await self.controller.submit(CreateCluster(cluster_id=self._cluster_id))
        registration = self._broker()
        try:
            self.broker_epoch = await self.controller.submit(registration)
        except BrokerIdTaken as error:
            self._on_taken(str(error))
            raise
        users = self._first_users()
        if users is not None:
            await self.controller.submit(users)
        await self.manager.register_replicas()
        await self._producer_ids.prepare(self.controller, registration.broker_id)
        log.info("registered broker epoch=%d", self.broker_epoch)

    def reports(self) -> tuple[SetReport, ...]:
        """Return the state of every member."""
        return self.manager.reports()

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        """Return durable state, and make the promise of ProbeSets."""
        return self.manager.probe(request)

    def release(self, request: ReleasePromises) -> None:
        """Release promises, see ReleasePromises."""
        self.manager.release(request)

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        """Stop taking writes and wait until the target has caught up, see PrepareTransfer."""
        return await self.manager.prepare_transfer(request)

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        """Renew the leases of masterships after an answer of the active controller."""
        self.manager.note_controller(sent_ms, is_caught_up=is_caught_up)


def registered_as(
    settings: NodeSettings, identity: str, *, incarnation: str, directory_count: int
) -> RegisterBroker:
    """Return how a broker registers. `identity`: the id of its first data directory."""
    node, cluster = settings.node, settings.cluster
    host, port = node.advertised()
    return RegisterBroker(
        broker_id=BrokerId(node.broker_id),
        host=host,
        port=port,
        rack=node.rack or None,
        machine=node.machine_name,
        ha_host=cluster.advertised_host or host,
        ha_port=cluster.ha_port,
        identity=identity,
        incarnation=incarnation,
        directory_count=directory_count,
        listeners=settings.told_listeners(),
    )
