"""Leader election: a key in etcd, bound to a lease that this process renews.

    no leader key ─► grant a lease, put the key ─► renew at a third of its life ─► ... ─► lost

A lease cannot end before its length has passed since the request that granted or renewed it was
*sent*. So this process counts from there, on its own monotonic clock, and stops leading a margin
earlier, whether or not etcd answers. A member of etcd that has lost its leadership may still renew
leases: a renewal counts only if a majority of etcd sees the key afterwards.

Source: Gray & Cheriton 1989 (leases, clock drift as a margin); etcd client/v3/concurrency. The
log's safety does not depend on time but on the comparison in every write (store.py).
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from penstock.base.ports import Clock
from penstock.runtime.etcd.backoff import Backoff
from penstock.runtime.etcd.client import EtcdRefused, EtcdUnavailable
from penstock.runtime.etcd.local_copy import LocalFiles
from penstock.runtime.etcd.store import LeaderKey, Store, View

MARGIN = 6
"""A sixth of the lease is kept as a margin for clock drift and for a renewal by a member of etcd
that had just lost its own leadership."""

RENEWALS_IN_LIFE = 3

_FILE = "lease"

log = logging.getLogger(__name__)


class Lead:
    """One leadership of this process, from winning it on."""

    def __init__(self, leader: LeaderKey, *, head: int, lease_id: int, deadline_ms: int) -> None:
        self.leader = leader
        self.head = head
        """Last entry of earlier leaders: this process leads once it has applied it."""
        self.lease_id = lease_id
        self.deadline_ms = deadline_ms
        """Monotonic time at which the leadership ends unless it is renewed."""
        self.ended = asyncio.Event()


class Candidate:
    """Campaigns whenever there is no leader. See the module."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        peer_id: int,
        lease_ttl_s: int,
        own_lease: "OwnLease",
    ) -> None:
        self._store = store
        self._clock = clock
        self._peer_id = peer_id
        self._lease_ttl_s = lease_ttl_s
        self._own_lease = own_lease
        self._vacant = asyncio.Event()
        self._lead: Lead | None = None
        self._resigned_until_ms = 0
        self.may_lead: Callable[[], bool] = lambda: True
        """Whether this process may campaign; called before each attempt."""
        self.on_won: Callable[[Lead], None] = lambda lead: None
        self.on_ended: Callable[[Lead, str], None] = lambda lead, reason: None

    def note_leader(self, leader: LeaderKey | None, revision: int) -> None:
        """Note the leader key as it was at `revision`; calls may come late and out of order."""
        if leader is None:
            self._vacant.set()
        else:
            self._vacant.clear()
        lead = self._lead
        if lead is None or revision <= lead.leader.create_revision:
            return
        if leader is None or leader.create_revision != lead.leader.create_revision:
            self.end(lead, "its key in etcd is gone")

    def end(self, lead: Lead, reason: str) -> None:
        """Stop leading; only the first call for a leadership counts."""
        if not lead.ended.is_set():
            lead.ended.set()
            self.on_ended(lead, reason)

    def resign(self) -> None:
        """Stop leading and do not campaign for the length of a lease."""
        if self._lead is not None:
            self._resigned_until_ms = self._clock.monotonic_ms() + self._lease_ttl_s * 1000
            self.end(self._lead, "it was asked to resign")

    async def give_back(self) -> None:
        """End the own lease, so that the next leader need not wait until it expires."""
        with contextlib.suppress(EtcdUnavailable, EtcdRefused):
            await self._own_lease.end(self._store)

    async def run(self) -> None:
        """Campaign and lead, until cancelled."""
        backoff = Backoff()
        while True:
            try:
                await self._own_lease.end(self._store)
                await self._vacant.wait()
                lead = await self._campaign() if self._may_campaign() else None
            except (EtcdUnavailable, EtcdRefused) as error:
                log.debug("no leader could be elected: %s", error)
                await backoff.wait()
                continue
            if lead is None:
                await backoff.wait()
                continue
            backoff.reset()
            await self._hold(lead)

    def _may_campaign(self) -> bool:
        return self.may_lead() and self._clock.monotonic_ms() >= self._resigned_until_ms

    async def _campaign(self) -> Lead | None:
        view = await self._store.view()
        if view.leader is not None:
            return None
        asked_at_ms = self._clock.monotonic_ms()
        lease = await self._store.client.grant(self._lease_ttl_s)
        await self._own_lease.note(lease.id)
        nonce = secrets.token_hex(8)
        try:
            lead = await self._take_key(view, nonce, lease.id, asked_at_ms, lease.ttl)
        except (EtcdUnavailable, EtcdRefused):
            # The key may have been put although no answer came; it goes with its lease.
            await self.give_back()
            raise
        if lead is None:
            await self.give_back()
        return lead

    async def _take_key(
        self, view: View, nonce: str, lease_id: int, asked_at_ms: int, ttl_s: int
    ) -> Lead | None:
        won = await self._store.campaign(
            view, peer_id=self._peer_id, nonce=nonce, lease_id=lease_id
        )
        if won is None:
            return None
        deadline_ms = self._deadline_ms(asked_at_ms, ttl_s)
        if self._clock.monotonic_ms() >= deadline_ms:
            return None
        return Lead(won.leader, head=won.head, lease_id=lease_id, deadline_ms=deadline_ms)

    async def _hold(self, lead: Lead) -> None:
        self._lead = lead
        self._vacant.clear()
        self.on_won(lead)
        self._end_at_deadline(lead)
        try:
            while not lead.ended.is_set():
                await self._pause(lead, self._lease_ttl_s / RENEWALS_IN_LIFE)
                await self._renew(lead)
        finally:
            self.end(lead, "this process stops")
            self._lead = None
            await self.give_back()

    async def _renew(self, lead: Lead) -> None:
        """Renew once; on failure retry shortly, until the deadline ends the leadership."""
        is_reported = False
        while not lead.ended.is_set():
            asked_at_ms = self._clock.monotonic_ms()
            if asked_at_ms >= lead.deadline_ms:
                self.end(lead, "its lease could not be renewed in time")
                return
            try:
                async with asyncio.timeout(self._lease_ttl_s / RENEWALS_IN_LIFE / 2):
                    answer = await self._store.client.keep_alive(lead.lease_id)
                    is_ours = answer.ttl > 0 and await self._store.is_leader(lead.leader)
            except (EtcdUnavailable, EtcdRefused, TimeoutError) as error:
                if not is_reported:
                    log.warning("the lease of the active controller was not renewed: %s", error)
                is_reported = True
                await self._pause(lead, self._lease_ttl_s / 30)
                continue
            if not is_ours:
                self.end(lead, "its lease has run out")
            else:
                lead.deadline_ms = self._deadline_ms(asked_at_ms, answer.ttl)
            return

    def _end_at_deadline(self, lead: Lead) -> None:
        """End the leadership if the lease was not renewed before its deadline."""
        left_ms = lead.deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            self.end(lead, "its lease could not be renewed in time")
        elif not lead.ended.is_set():
            loop = asyncio.get_running_loop()
            loop.call_later(left_ms / 1000, self._end_at_deadline, lead)

    async def _pause(self, lead: Lead, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await lead.ended.wait()

    def _deadline_ms(self, asked_at_ms: int, ttl_s: int) -> int:
        life_ms = min(ttl_s, self._lease_ttl_s) * 1000
        return asked_at_ms + life_ms - life_ms // MARGIN


class OwnLease:
    """The last lease of this process, which is ended as soon as possible rather than awaited.

    Its id is on the local disk before the key is put, so that a killed process ends its previous
    lease when it starts again. The data directory has one owner at a time, so the process that
    wrote the id is gone.
    """

    def __init__(self, files: LocalFiles, loop: asyncio.AbstractEventLoop) -> None:
        """Read the last id. Blocking: call only while the process starts."""
        self._files = files
        self._path = f"{files.directory}/{_FILE}"
        self._loop = loop
        self._lease_id = self._read()

    async def end(self, store: Store) -> None:
        """End the lease if it may still exist. Raises EtcdUnavailable, EtcdRefused."""
        if self._lease_id:
            await store.client.revoke(self._lease_id)
            self._lease_id = 0

    async def note(self, lease_id: int) -> None:
        """Remember a lease. If the disk fails, only the next start takes longer."""
        self._lease_id = lease_id
        done: asyncio.Future[BaseException | None] = self._loop.create_future()

        def finish(_: None, error: BaseException | None) -> None:
            if not done.cancelled():
                done.set_result(error)

        self._files.offload.submit(
            lambda: self._files.disk.replace(self._path, b"%d" % lease_id), finish
        )
        error = await done
        if error is not None:
            log.warning("the lease of the active controller is not on disk: %s", error)

    def _read(self) -> int:
        try:
            file = self._files.disk.open(self._path)
        except FileNotFoundError:
            return 0
        try:
            digits = bytes(file.read(0, 32)).strip()
        finally:
            file.close()
        return int(digits) if digits.isdigit() else 0
