"""The replica manager: moves this broker's members between roles according to the image.

    image delta ──► newest wish of each set ──► one transition at a time for each set
                                                  │ open the log, register the replica
                                                  │ become_master / become_slave / resign
                                                  ▼
                                       HaServer (sets led)   HaClient (one link for each master)

A wish is a role in a leader epoch (ha/wishes.py). While one is being fulfilled, newer ones replace
each other, and only the newest is fulfilled next: nothing is lost and no two transitions overlap.
Use: create it, add hooks, `start()` once the image has been replayed, pass links of purpose `ha` to
`on_link`, call `note_controller()` at each heartbeat answer, `await stop()`.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, ReplicaSetId
from penstock.base.ports import Cancellable
from penstock.controller.metadata.image import NO_EPOCH, ClusterDelta, ClusterImage
from penstock.controller.session import (
    FAILED,
    NOT_PROMISED,
    PrepareTransfer,
    ProbeSets,
    ReleasePromises,
    SetReport,
    SlaveReport,
    TransferReady,
)
from penstock.net.peer import PeerHello, PeerLink
from penstock.replica.follow_parts import FollowStats
from penstock.replica.master_set import MasterSet
from penstock.replica.mending import DamageStats
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.replica.scrubber import Scrubber
from penstock.replication.config import ReplicationConfig
from penstock.replication.promise import Asker
from penstock.replication.sync_state import Process
from penstock.runtime.ha.client import ClientPorts, HaClient
from penstock.runtime.ha.host import Hook, ManagerPorts
from penstock.runtime.ha.server import HaServer
from penstock.runtime.ha.set_driver import SetDriver
from penstock.runtime.ha.transfer import prepare_transfer

PURPOSE = b"ha"
TICK_MS = 50
SUSPICION_MS_MAX = 2_000
"""How long a lost link makes a master suspect. Live controllers replace a dead master much sooner;
afterwards the metadata is believed again."""
STOP_SECONDS = 10.0
"""Time for truncating or replacing a log to finish when the process stops."""

log = logging.getLogger(__name__)


class ReplicaManager:
    """All members of replica sets on this broker, in `members` by set id."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        incarnation: str,
        image: ClusterImage,
        config: ReplicationConfig,
        ports: ManagerPorts,
    ) -> None:
        """`incarnation` is this process's, as registered. Hooks run on the loop, after the event:

        on_member_opened    a member is open, without a role: Broker.add_member
        on_member_closed    it has resigned and its log will be closed: Broker.remove_member
        on_became_master    it accepts writes: load the groups of its internal partitions
        on_lost_mastership  it no longer accepts writes: unload them
        on_member_fenced    its log has failed: it has no role until the process restarts
        """
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.image = image
        self.config = config
        self.ports = ports
        self.members: dict[ReplicaSetId, ReplicaSetMember] = {}
        self.drivers: dict[ReplicaSetId, SetDriver] = {}
        self.follow_stats = FollowStats()
        self.damage_stats = DamageStats()
        self.scrubber = Scrubber(self.members, ports.scheduler)
        self.on_member_opened: list[Hook] = []
        self.on_member_closed: list[Hook] = []
        self.on_became_master: list[Hook] = []
        self.on_lost_mastership: list[Hook] = []
        self.on_member_fenced: list[Callable[[ReplicaSetMember, Exception], None]] = []
        self.lease_losses_before = 0
        self._is_stopped = False
        self._timer: Cancellable | None = None
        self.server = HaServer(
            config=config,
            clock=ports.clock,
            scheduler=ports.scheduler,
            replica_id_of=self._replica_id_of,
            newest_epoch_of=self._newest_epoch_of,
        )
        self.client = HaClient(
            ClientPorts(
                hello=self._hello,
                security=ports.security,
                address_of=self._address_of,
                config=config,
                clock=ports.clock,
                scheduler=ports.scheduler,
                spawn=ports.spawn,
            )
        )

    def start(self) -> None:
        """Adopt the roles of the image, and follow its changes from now on."""
        self.image.subscribe(self._on_delta)
        for replica_set_id in self.image.replica_sets:
            self._consider(replica_set_id)
        self.scrubber.start()
        self._tick()

    async def stop(self) -> None:
        """Give up all roles, end the transitions, close the links. Logs stay open for the node."""
        self._is_stopped = True
        self.scrubber.stop()
        if self._timer is not None:
            self._timer.cancel()
        for driver in self.drivers.values():
            driver.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for driver in list(self.drivers.values()):
                    await driver.ended.wait()
        self.client.stop()
        self.server.stop()

    @property
    def is_registered(self) -> bool:
        """Whether this incarnation is registered, so that the image's roles are for it."""
        broker = self.image.brokers.get(self.broker_id)
        return broker is not None and broker.incarnation == self.incarnation

    def is_suspect(self, broker_id: BrokerId) -> bool:
        """Whether the link to a master was lost lately, so that it is probably dead."""
        link = self.client.links.get(broker_id)
        if link is None or link.lost_ms is None:
            return False
        return self.ports.clock.monotonic_ms() - link.lost_ms < SUSPICION_MS_MAX

    @property
    def lease_losses(self) -> int:
        """Times that a mastership of this broker had to stop confirming."""
        present = sum(master_set.lease.losses for master_set in self.server.sets.values())
        return self.lease_losses_before + present

    # --- links and controllers -----------------------------------------------------------------

    def on_link(self, link: PeerLink) -> None:
        """Accept the link of a slave; the PeerListener's callback for purpose b"ha"."""
        self.server.on_link(link)

    def note_controller(self, sent_ms: int, *, is_caught_up: bool) -> None:
        """Note its answer to what was sent to the active controller then: it renews the leases.

        It grants a new lease only if the image holds all that the controller's did.
        """
        for master_set in self.server.sets.values():
            master_set.note_controller(sent_ms, is_caught_up=is_caught_up)

    async def register_replicas(self) -> None:
        """Have the logs of all members recorded by the controllers. Raises MetadataError."""
        for driver in list(self.drivers.values()):
            await driver.registration.register()

    def reports(self) -> tuple[SetReport, ...]:
        """Return the state of every member that is open or damaged, for heartbeats and status."""
        drivers = self.drivers.values()
        opened = tuple(self._report(driver) for driver in drivers if driver.member is not None)
        return opened + tuple(
            SetReport(
                replica_set_id=driver.replica_set_id,
                log_id=driver.log_id,
                role=FAILED,
                leader_epoch=driver.newest_epoch,
                last_log_epoch=LeaderEpoch(-1),
                log_start_position=0,
                log_end_position=0,
                confirm_position=0,
            )
            for driver in drivers
            if driver.member is None and driver.mending.is_pending
        )

    def probe(self, request: ProbeSets) -> tuple[SetReport, ...]:
        """Return the durable state of the requested sets, and make the promise of ProbeSets."""
        asker = Asker(request.controller_epoch, request.request_id)
        found = []
        for probed in {
            replica_set.replica_set_id: replica_set for replica_set in request.sets
        }.values():
            driver = self.drivers.get(probed.replica_set_id)
            if driver is not None and driver.member is not None and not driver.member.log.is_busy:
                if probed.is_promise_wanted:
                    driver.promise.make(probed.leader_epoch, asker)
                found.append(self._report(driver, with_slaves=False))
        return tuple(found)

    def release(self, request: ReleasePromises) -> None:
        """End the promises for these sets, unless a newer one was made."""
        asker = Asker(request.controller_epoch, request.request_id)
        for released in request.sets:
            driver = self.drivers.get(released.replica_set_id)
            if driver is not None:
                driver.release(released.leader_epoch, asker)

    async def prepare_transfer(self, request: PrepareTransfer) -> TransferReady:
        """Stop accepting writes and wait until the target holds all; bounded by the request."""
        master_set = self.server.sets.get(request.replica_set_id)
        ready = await prepare_transfer(master_set, request, self.ports.scheduler)
        driver = self.drivers.get(request.replica_set_id)
        if ready.is_ready and request.is_promise_wanted and driver is not None:
            asker = Asker(request.controller_epoch, request.request_id)
            driver.promise.make(request.leader_epoch, asker)
        return ready

    def _report(self, driver: SetDriver, *, with_slaves: bool = True) -> SetReport:
        member = driver.member
        assert member is not None
        own_log, led = member.log, driver.master_set
        is_unfit = own_log.is_fenced or driver.mending.is_pending
        has_failed = is_unfit and member.role is not Role.MASTER
        newest = max(member.leader_epoch, driver.newest_epoch)
        return SetReport(
            replica_set_id=member.replica_set_id,
            log_id=driver.log_id,
            role=FAILED if has_failed else member.role.value,
            leader_epoch=newest if has_failed else member.leader_epoch,
            last_log_epoch=own_log.leader_epoch,
            log_start_position=own_log.start_position,
            log_end_position=own_log.durable_position,
            confirm_position=member.confirm_position,
            slaves=self._slaves(led) if led is not None and with_slaves else (),
            promised_to=max(
                (one.controller_epoch for one in _askers(driver)), default=NOT_PROMISED
            ),
            whole_from=own_log.reach.whole_from,
        )

    def _slaves(self, master_set: MasterSet) -> tuple[SlaveReport, ...]:
        now_ms, end = self.ports.clock.monotonic_ms(), master_set.member.log.end_position
        return tuple(
            SlaveReport(
                broker_id=broker_id,
                acknowledged_position=slave.acknowledged,
                lag_bytes=end - max(slave.acknowledged, 0),
                caught_up_ms_ago=now_ms - slave.caught_up_ms,
                is_connected=slave.is_connected,
            )
            for broker_id, slave in master_set.keeper.slaves.items()
        )

    # --- the image -----------------------------------------------------------------------------

    def drained(self) -> Collection[BrokerId]:
        """Return the brokers that must not join a sync-state set because they are draining."""
        return [broker.broker_id for broker in self.image.brokers.values() if broker.is_draining]

    def dead(self) -> Collection[BrokerId]:
        """Return the brokers that the controllers have found dead."""
        return [broker.broker_id for broker in self.image.brokers.values() if broker.is_fenced]

    def process_of(self, broker_id: BrokerId) -> Process | None:
        """Return the process that the controllers have registered as that broker."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else Process(broker.incarnation, broker.broker_epoch)

    def _on_delta(self, delta: ClusterDelta) -> None:
        changed = {replica_set.replica_set_id: None for replica_set in delta.changed_replica_sets}
        if any(broker.broker_id == self.broker_id for broker in delta.changed_brokers):
            changed |= dict.fromkeys(self.drivers)
        for replica_set_id in changed:
            self._consider(replica_set_id)

    def _consider(self, replica_set_id: ReplicaSetId) -> None:
        if self._is_stopped:
            return
        driver = self.drivers.get(replica_set_id)
        if driver is None:
            replica_set = self.image.replica_sets.get(replica_set_id)
            if replica_set is None or self.broker_id not in replica_set.replicas:
                return
            driver = self.drivers[replica_set_id] = SetDriver(self, replica_set_id)
            self.ports.spawn(f"replica-set-{replica_set_id}", self._drive(driver))
        driver.update()

    async def _drive(self, driver: SetDriver) -> None:
        await driver.run()
        if self.drivers.get(driver.replica_set_id) is driver and not self._is_stopped:
            del self.drivers[driver.replica_set_id]
            self._consider(driver.replica_set_id)  # it may be a member again by now

    def opened(self, member: ReplicaSetMember) -> None:
        """A driver has opened its log."""
        self.members[member.replica_set_id] = member
        self.tell(self.on_member_opened, member)

    def closed(self, member: ReplicaSetMember) -> None:
        """A driver has given up its member."""
        del self.members[member.replica_set_id]
        self.tell(self.on_member_closed, member)
        try:
            self.ports.logs.close(member.replica_set_id, member.log)
        except (PlatformError, OSError) as error:
            log.critical("set=%d was not closed cleanly: %s", member.replica_set_id, error)

    def fenced(self, member: ReplicaSetMember, error: Exception) -> None:
        """The log of a driver has failed."""
        log.critical("set=%d fenced: %s", member.replica_set_id, error)
        for hook in self.on_member_fenced:
            hook(member, error)

    @staticmethod
    def tell(hooks: list[Hook], member: ReplicaSetMember) -> None:
        """Call all hooks of an event."""
        for hook in hooks:
            hook(member)

    def _replica_id_of(self, replica_set_id: ReplicaSetId, broker_id: BrokerId) -> ReplicaId | None:
        replica_set = self.image.replica_sets.get(replica_set_id)
        if replica_set is None or broker_id not in replica_set.replicas:
            return None
        return replica_set.replica_ids.get(broker_id)

    def _newest_epoch_of(self, replica_set_id: ReplicaSetId) -> LeaderEpoch:
        replica_set = self.image.replica_sets.get(replica_set_id)
        return NO_EPOCH if replica_set is None else replica_set.leader_epoch

    def _address_of(self, broker_id: BrokerId) -> tuple[str, int] | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None or not broker.ha_port else (broker.ha_host, broker.ha_port)

    def _hello(self) -> PeerHello:
        cluster_id, session_id = self.image.cluster_id, self.ports.new_session_id()
        return PeerHello(PURPOSE, cluster_id, self.broker_id, session_id)

    def _tick(self) -> None:
        self.server.tick()
        self.client.tick()
        self._timer = self.ports.scheduler.call_later(TICK_MS, self._tick)


def _askers(driver: SetDriver) -> list[Asker]:
    """Return who may still decide on what this member has told them, or prepared for them."""
    led = driver.master_set
    askers = (driver.promise.asker, None if led is None else led.handing_over.asker)
    return [asker for asker in askers if asker is not None]
