"""Moves one member of a replica set between roles, one transition at a time, newest wish first.

    wish (from the image)              what it needs
    Lead(leader epoch)                 log free ─► become_master ─► slaves may follow
    Resume(leader epoch)               as before a restart, while no controller answers: each
                                       replica has to shake hands and be truncated to the own end
    Follow(leader epoch, master)       log free ─► become_slave ─► HaClient
    Idle(leader epoch)                 there is no master, or it is another process of this broker

The loss of a mastership takes effect at once, in the call that reports it; every other transition
waits until the log is no longer being truncated or replaced. A newer wish replaces one that waits.

Source: RocketMQ's ReplicasManager, though it polls and this driver is notified of changed images.
What a role means for records is in replica/replica_set.py.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaId, ReplicaSetId
from penstock.controller.metadata.image import NO_EPOCH, ReplicaSetImage
from penstock.replica.change_request import ask_for, change_command, recorded_in
from penstock.replica.follow_parts import FollowParts
from penstock.replica.followed_set import FollowedSet
from penstock.replica.master_set import MasterSet
from penstock.replica.mending import Mending
from penstock.replica.parts_of_logs import must_be_whole
from penstock.replica.replica_set import NO_MASTER, ReplicaSetMember, Role
from penstock.replica.wishes import (
    NOTHING_YET,
    Follow,
    Idle,
    Lead,
    Resume,
    Wish,
    obstacle_to,
)
from penstock.replication.promise import Asker, Promise
from penstock.replication.sync_state import Change
from penstock.runtime.ha.registration import RETRY_MS, ReplicaRegistration
from penstock.storage.errors import CorruptLog, StorageError

if TYPE_CHECKING:
    from penstock.base.ports import Scheduler
    from penstock.runtime.ha.host import Host, LogSource

log = logging.getLogger(__name__)


class SetDriver:
    """This broker's member of one set, from opening its log to giving it up."""

    def __init__(self, manager: Host, replica_set_id: ReplicaSetId) -> None:
        self.replica_set_id = ReplicaSetId(replica_set_id)
        self.member: ReplicaSetMember | None = None
        self.log_id = ""
        self.master_set: MasterSet | None = None
        self.followed: FollowedSet | None = None
        self.trouble = ""
        """Why the newest wish was not fulfilled, but for damage; empty if it was."""
        self.open_error: PlatformError | OSError | None = None
        """Why the last attempt to open the log failed."""
        self._manager = manager
        self.mending = Mending(self, manager.damage_stats)
        self._done: Wish = NOTHING_YET
        self.promise = Promise()
        """Promises: while held, this member neither acknowledges nor confirms."""
        self.registration = ReplicaRegistration(self, manager)
        self._opened_epoch = -1
        """Newest epoch in the log when it was opened; if led by this broker, before a restart."""
        self.is_stopped = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self.ended = asyncio.Event()

    # --- the image -----------------------------------------------------------------------------

    @property
    def image(self) -> ReplicaSetImage | None:
        """The set in the image; None if this broker is not a member."""
        found = self._manager.image.replica_sets.get(self.replica_set_id)
        return found if found is not None and self._own_id in found.replicas else None

    @property
    def _own_id(self) -> BrokerId:
        return self._manager.broker_id

    @property
    def scheduler(self) -> Scheduler:
        """The event loop's scheduler."""
        return self._manager.ports.scheduler

    @property
    def logs(self) -> LogSource:
        """Opens and repairs logs."""
        return self._manager.ports.logs

    @property
    def is_failover_enabled(self) -> bool:
        """Whether the controllers may elect another master."""
        return self._manager.image.is_failover_enabled

    @property
    def newest_epoch(self) -> LeaderEpoch:
        """The newest leader epoch known here."""
        image = self.image
        return NO_EPOCH if image is None else image.leader_epoch

    def wish(self) -> Wish:
        """Return the role that the image gives this member now."""
        image = self.image
        if image is None or self.is_stopped:
            return Idle(self._done.leader_epoch)
        if self._has_lost_its_log(image) or image.master == NO_MASTER:
            return Idle(image.leader_epoch)
        if image.master != self._own_id:
            return Follow(image.leader_epoch, image.master)
        return self._wish_to_lead(image)

    def _wish_to_lead(self, image: ReplicaSetImage) -> Wish:
        if self._own_id not in image.sync_state_set or self.mending.is_aside(image.leader_epoch):
            return Idle(image.leader_epoch)
        # What an earlier process wrote in this epoch may differ from what slaves received of it.
        is_new = image.leader_epoch > self._opened_epoch and self._manager.is_registered
        if is_new or image.replicas == (self._own_id,):
            return Lead(image.leader_epoch)
        return Resume(image.leader_epoch)

    def _has_lost_its_log(self, image: ReplicaSetImage) -> bool:
        """Whether the controllers have recorded another log of this broker: this one is empty."""
        recorded = image.log_ids.get(self._own_id)
        return recorded is not None and self.log_id not in {"", recorded}

    def replica_id(self) -> ReplicaId | None:
        """Return the recorded id of the own log, None while it is not recorded."""
        image = self.image
        if image is None or image.log_ids.get(self._own_id) != self.log_id:
            return None
        return image.replica_ids.get(self._own_id)

    def _may_cut_confirmed(self) -> bool:
        image, member = self.image, self.member
        return (
            image is not None
            and member is not None
            and image.may_have_lost(member.log.leader_epoch)
        )

    # --- events --------------------------------------------------------------------------------

    def update(self) -> None:
        """Compare the role with a changed image. A mastership that is over ends in this call."""
        wish = self.wish()
        if self.member is not None and wish != self._done:
            self._leave_role(wish.leader_epoch)
        image = self.image
        if self.master_set is not None and image is not None:
            self.master_set.recorded(recorded_in(image))
        self._wake.set()

    def stop(self) -> None:
        """Give up the role and end the driver."""
        self.is_stopped = True
        self.update()

    def release(self, leader_epoch: LeaderEpoch, asker: Asker) -> None:
        """End a promise: nothing that was decided on it can still take effect."""
        if self.promise.release(leader_epoch, asker):
            log.info("set=%d goes on in epoch=%d", self.replica_set_id, leader_epoch)
        if self.followed is not None:
            self.followed.tick()
        if self.master_set is not None and self.master_set.leader_epoch == leader_epoch:
            self.master_set.go_on(asker)

    def _may_not_acknowledge(self, leader_epoch: LeaderEpoch) -> bool:
        """Whether a promise forbids that a slave acknowledges in this mastership.

        A restarted process does not know what its predecessor promised. Its registration follows in
        the metadata log all that was decided on those promises.
        """
        image = self.image
        is_new = image is not None and image.policy.needs_lease and not self._manager.is_registered
        return is_new or self.promise.holds(leader_epoch)

    def _fenced(self, member: ReplicaSetMember, error: Exception) -> None:
        """Give up the role after the log was fenced, so that another member is elected.

        Alone in its set it stays master, so that what is durable can still be read.
        """
        self.trouble = f"its log has failed: {error}"
        image = self.image
        if image is None or image.replicas != (self._own_id,):
            self._leave_role(member.leader_epoch)
        self._manager.fenced(member, error)

    def lay_down(self) -> None:
        """Give up the role, then check the wish again."""
        self._leave_role(self._done.leader_epoch)
        self._wake.set()

    # --- transitions ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Fulfil wishes until `stop`, or until this broker is no longer a member."""
        try:
            while not self.is_stopped:
                await self._wake.wait()
                self._wake.clear()
                if not await self._fulfil():
                    self._retry_later()
                if self.member is None and self.image is None:
                    break
            await self._free_log()
        finally:
            self.ended.set()

    def _retry_later(self) -> None:
        self._manager.ports.scheduler.call_later(RETRY_MS, self._wake.set)

    async def _fulfil(self) -> bool:
        """Fulfil the newest wish; return False if it must be retried."""
        if self.is_stopped:
            return True
        if self.image is None:
            await self.close_log()
            return True
        if self.mending.is_pending and isinstance(self.wish(), Follow):
            if not await self.mending.mend():
                return False
            self.open_error = None
            return await self._fulfil_again()
        if self.member is None and (self.mending.is_pending or not await self._open()):
            return False
        self.registration.begin()
        await self._free_log()
        return await self._take_up(self.wish())

    async def _take_up(self, wish: Wish) -> bool:
        """Change from the present role to the wish; the log is open and was free a moment ago."""
        if wish == self._done or self.is_stopped:
            return True
        self._leave_role(wish.leader_epoch)
        if self.followed is not None:
            return await self._fulfil_again()
        return self._begin(wish)

    async def _fulfil_again(self) -> bool:
        self._wake.set()
        return True

    def _begin(self, wish: Wish) -> bool:
        """Take a role. The log is free, and no other role is held."""
        member = self.member
        assert member is not None
        assert self.master_set is None
        self.trouble = obstacle_to(wish, member)
        if self.trouble:
            log.critical("set=%d %s", self.replica_set_id, self.trouble)
            return True
        match wish:
            case Lead():
                return self._lead(member, wish)
            case Resume():
                self._resume(member, wish)
            case Follow():
                self._follow(member, wish)
            case Idle():
                member.resign(LeaderEpoch(wish.leader_epoch))
        self._done = wish
        return True

    def _lead(self, member: ReplicaSetMember, wish: Lead) -> bool:
        master_set = self._make_master_set(member, wish.leader_epoch)
        try:
            master_set.begin()
        except StorageError as error:
            self.trouble = f"cannot begin its mastership: {error}"
            log.critical("set=%d %s", self.replica_set_id, self.trouble)
            return False
        self.master_set = master_set
        self._manager.server.lead(master_set)
        self._done = wish
        self._became_master(member)
        return True

    def _became_master(self, member: ReplicaSetMember) -> None:
        log.info(
            "set=%d master epoch=%d end=%d in-step=%s",
            self.replica_set_id,
            member.leader_epoch,
            member.log.end_position,
            member.confirm.membership.committed,
        )
        self._manager.tell(self._manager.on_became_master, member)

    def _resume(self, member: ReplicaSetMember, wish: Resume) -> None:
        member.resign(LeaderEpoch(wish.leader_epoch))
        master_set = self._make_master_set(member, wish.leader_epoch, is_resuming=True)
        master_set.on_all_aligned = partial(self._all_aligned, member, master_set)
        self.master_set = master_set
        self._manager.server.lead(master_set)
        # Every restart of a whole cluster gets here, so this is not worth a warning.
        log.info(
            "set=%d was master before the restart: waits for a controller, or for all replicas",
            self.replica_set_id,
        )

    def _all_aligned(self, member: ReplicaSetMember, master_set: MasterSet) -> None:
        if self.master_set is not master_set:
            return
        try:
            master_set.begin()
        except StorageError as error:
            trouble = f"cannot resume its mastership: {error}"
            if trouble != self.trouble:
                log.critical("set=%d %s", self.replica_set_id, trouble)
            self.trouble = trouble
            return
        self.trouble = ""
        log.info("set=%d resumes its mastership: all replicas agree", self.replica_set_id)
        self._became_master(member)

    def _make_master_set(
        self, member: ReplicaSetMember, leader_epoch: LeaderEpoch, *, is_resuming: bool = False
    ) -> MasterSet:
        image = self.image
        assert image is not None
        manager = self._manager
        master_set = MasterSet(
            member,
            recorded_in(image),
            leader_epoch,
            config=manager.config,
            clock=manager.ports.clock,
            submit=self._submit_change,
            is_resuming=is_resuming,
        )
        master_set.is_promised = partial(self.promise.holds, leader_epoch)
        master_set.unwanted = manager.drained
        master_set.on_doubt = partial(manager.scrubber.hurry, self.replica_set_id)
        master_set.dead = manager.dead
        master_set.process_of = manager.process_of
        return master_set

    def _follow(self, member: ReplicaSetMember, wish: Follow) -> None:
        manager = self._manager
        member.become_slave(LeaderEpoch(wish.leader_epoch), wish.master_id)
        parts = FollowParts(
            config=manager.config,
            clock=manager.ports.clock,
            scheduler=manager.ports.scheduler,
            replica_id=self.replica_id,
            incarnation=manager.incarnation,
            may_cut_confirmed=self._may_cut_confirmed,
            on_offence=partial(manager.client.on_offence, wish.master_id),
            is_promised=self._may_not_acknowledge,
            must_be_whole=partial(must_be_whole, lambda: self.image, self._own_id),
        )
        followed = self.followed = FollowedSet(
            member, wish.leader_epoch, parts, manager.follow_stats
        )
        log.info(
            "set=%d slave epoch=%d master=%d end=%d",
            self.replica_set_id,
            wish.leader_epoch,
            wish.master_id,
            member.log.end_position,
        )
        manager.client.follow(followed, wish.master_id)

    # --- leaving a role ------------------------------------------------------------------------

    def _leave_role(self, newest_epoch: LeaderEpoch) -> None:
        """End the present role at once; the log may stay busy for a while."""
        member = self.member
        assert member is not None
        if self.master_set is not None:
            self._manager.server.unlead(self.replica_set_id)
            self._manager.lease_losses_before += self.master_set.lease.losses
            self.master_set = None
        was_master = member.role is Role.MASTER
        if self.followed is not None and isinstance(self._done, Follow):
            self.followed.on_idle = self._idle.set
            self._manager.client.unfollow(self.followed, self._done.master_id)
            self.followed.close()
        if member.role is not Role.IDLE:
            member.resign(LeaderEpoch(max(newest_epoch, member.leader_epoch)))
        self._done = NOTHING_YET
        if was_master:
            log.info("set=%d is no longer master, epoch=%d", self.replica_set_id, newest_epoch)
            self._manager.tell(self._manager.on_lost_mastership, member)

    async def _free_log(self) -> None:
        """Wait until the previous FollowedSet no longer uses the log."""
        followed = self.followed
        if followed is None or isinstance(self._done, Follow):
            return
        while followed.is_busy:
            self._idle.clear()
            await self._idle.wait()
        self.followed = None

    async def close_log(self) -> None:
        """Give up the role and close the log; it is opened again for the next wish."""
        member = self.member
        if member is None:
            return
        self._leave_role(self._done.leader_epoch)
        await self._free_log()
        self.member = None
        self._manager.closed(member)

    # --- opening -------------------------------------------------------------------------------

    async def _open(self) -> bool:
        manager = self._manager
        try:
            opened = await manager.ports.logs.open(self.replica_set_id)
        except (PlatformError, OSError) as error:
            if str(self.open_error) != str(error):
                log.critical("set=%d its log cannot be opened: %s", self.replica_set_id, error)
            self.trouble = f"its log cannot be opened: {error}"
            self.open_error = error
            if isinstance(error, CorruptLog):
                self.mending.found_at_start(error.position, error.reason)
            return False
        self.open_error = None
        self.log_id = opened.log_id
        self._opened_epoch = opened.log.leader_epoch
        member = self.member = ReplicaSetMember(
            self.replica_set_id, manager.broker_id, opened.log, self.scheduler.call_soon
        )
        member.on_fenced = self._fenced
        self.mending.watch(opened.log, partial(manager.scrubber.hurry, self.replica_set_id))
        manager.damage_stats.rebuilt_files += opened.rebuilt_files
        self.trouble = ""
        manager.opened(member)
        return True

    # --- the sync-state set --------------------------------------------------------------------

    def _submit_change(self, master_set: MasterSet, change: Change) -> None:
        command = change_command(self.replica_set_id, self._own_id, change)
        work = ask_for(command, self._manager.ports.controller.submit, master_set.answered)
        self._manager.ports.spawn(f"sync-state-set-{self.replica_set_id}", work)
