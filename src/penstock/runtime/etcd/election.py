"""Being the leader: a key in etcd that lives as long as a lease that this process renews.

    no leader key ─► grant a lease, put the key ─► renew at a third of its life ─► ... ─► lost

A lease can not end before its length has passed since the request that made or renewed it was
*sent*. So this process counts from there, on its own monotonic clock, and stops leading a margin
earlier, whether or not etcd answers. A member of etcd that leads it no longer may still renew
leases: a renewal counts only if a majority of etcd then still sees the key.

Source: Gray & Cheriton 1989 (leases, clock drift as a margin); etcd client/v3/concurrency.
What keeps the log whole is not time but the comparison in every write (store.py).
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
"""A sixth of the lease is given away for clocks that drift and for a renewal by a member of etcd
that had just lost its own leadership."""

RENEWALS_IN_LIFE = 3

_FILE = "lease"

log = logging.getLogger(__name__)


class Lead:
    """One leadership of this process, from the moment it was won."""

    def __init__(self, leader: LeaderKey, *, head: int, lease_id: int, deadline_ms: int) -> None:
        self.leader = leader
        self.head = head
        """Last entry of earlier leaders: this one leads once it is applied here."""
        self.lease_id = lease_id
        self.deadline_ms = deadline_ms
        """Monotonic time at which the lead ends unless it is renewed."""
        self.ended = asyncio.Event()


class Candidate:
    """Tries to lead whenever nobody does. See the module."""

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
        """Asked before each attempt."""
        self.on_won: Callable[[Lead], None] = lambda lead: None
        self.on_ended: Callable[[Lead, str], None] = lambda lead, reason: None

    def note_leader(self, leader: LeaderKey | None, revision: int) -> None:
        """The leader key as it was at `revision`; news may come late and is not repeated."""
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
        """Stop leading; once for each lead."""
        if not lead.ended.is_set():
            lead.ended.set()
            self.on_ended(lead, reason)

    def resign(self) -> None:
        """Stop leading and leave it to the others for the length of a lease."""
        if self._lead is not None:
            self._resigned_until_ms = self._clock.monotonic_ms() + self._lease_ttl_s * 1000
            self.end(self._lead, "it was asked to resign")

    async def give_back(self) -> None:
        """End the own lease, so that the next one leads at once; else it runs out by itself."""
        with contextlib.suppress(EtcdUnavailable, EtcdRefused):
            await self._own_lease.end(self._store)

    async def run(self) -> None:
        """Campaign and lead, for ever."""
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
            # The key may be ours without our knowing: it goes with its lease, at the latest then.
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
        """Renew once; on failure again shortly, until the deadline ends the lead."""
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
        """Look again when the lease was to end; it was renewed meanwhile, or that was it."""
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
    """The last lease of this process, ended as soon as it can be rather than waited for.

    Its number is on the local disk before the key is taken, so a process that was killed ends the
    lease of its former life when it starts again. The data directory has one owner at a time:
    whoever reads the number knows that the process that wrote it is gone.
    """

    def __init__(self, files: LocalFiles, loop: asyncio.AbstractEventLoop) -> None:
        """Blocking: for the start of a process."""
        self._files = files
        self._path = f"{files.directory}/{_FILE}"
        self._loop = loop
        self._lease_id = self._read()

    async def end(self, store: Store) -> None:
        """End it if it may still be there. Raises EtcdUnavailable, EtcdRefused."""
        if self._lease_id:
            await store.client.revoke(self._lease_id)
            self._lease_id = 0

    async def note(self, lease_id: int) -> None:
        """Remember a lease. A disk that does not take it costs only time at the next start."""
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
