"""A Raft group in memory: production cores, and disks and a network controlled by the walk.

    core ─► work ─► being written ─► durable ─► told, applied ─► core
                    lost in a crash   kept
            └► messages ─► wire ─► core of another member, or lost

The walk decides when work on a disk is done, and the member goes on meanwhile. Every step is
checked, by raft/promises.py for the group and by raft/recount.py for each member. A member can have
a twin: a process with its old directory that runs beside the one with the new directory.

Source: raft/raft.py (the driver's duties).
"""

from collections import deque
from collections.abc import Callable
from random import Random

from penstock.base.ids import PeerId
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Peers
from penstock.raft.errors import InvalidMessage
from penstock.raft.founding import Birth
from penstock.raft.history import ConfigurationHistory
from penstock.raft.ids import NO_TERM, DirectoryId, RaftIndex, Term
from penstock.raft.messages import AppendEntries, AppendResponse, Message
from penstock.raft.raft import Raft
from penstock.raft.ready import Outgoing, Ready, Role
from simulator.checks.raft.promises import RaftPromises, Seat, Store, state_at
from simulator.checks.raft.recount import MemberCount

Found = Callable[[str], None]
WIRE_MAX = 150
"""Messages under way; older ones are lost."""


class CopiedRaft(Raft):
    """A core that belongs to no process of a run."""


class Member:
    """One process."""

    def __init__(self, group: "Group", peer_id: PeerId, store: Store) -> None:
        self.peer_id = peer_id
        self.store = store
        self._group = group
        self.raft = CopiedRaft(
            own_id=peer_id,
            config=group.config,
            random_below=group.random.randrange,
            hard_state=store.state,
            snapshot=store.snapshot,
            entries=tuple(store.entries.values()),
            birth=Birth(
                directory_id=DirectoryId(store.directory_id), first_voters=group.first_voters
            ),
        )
        self._count = MemberCount(self.raft, store, group.found)
        self._core = self.raft._core  # noqa: SLF001  what it consists of has no other door
        self.writing: deque[Ready] = deque()
        self.durable: deque[Ready] = deque()
        """On the disk, and the process does not know it yet."""
        self.is_slow = False
        """Whether its disk does not get on with what is to be written."""
        self._applied: int = store.snapshot.index
        self._known = self._core.log.last_index, self.raft.commit_index, (Role.FOLLOWER, 0)

    # --- what happens --------------------------------------------------------------------------

    def step(self, message: Message) -> None:
        """Take a message."""
        last = self._core.log.last_index
        try:
            self._count.step(lambda: self.raft.step(message), message)
        except InvalidMessage as error:
            self._group.found(f"{self.store.name} does not take {message}: {error}")
        if isinstance(message, AppendEntries):
            last = min(last, message.previous_index)
        self._look(last + 1)
        if isinstance(message, AppendResponse):
            self._group.promises.believes(self.raft, self._group.stores_by_seat)

    def tick(self) -> None:
        """Let time pass."""
        self._count.tick(self.raft.tick)
        self._look()

    def peer_lost(self, peer_id: PeerId) -> None:
        """Lose a connection."""
        self._count.peer_lost(peer_id)
        self.raft.peer_lost(peer_id)
        self._count.look()
        self._look()

    def ask(self, question: int) -> None:
        """Ask for a read."""
        self._group.promises.asks(question)
        self._count.asked(question)
        self.raft.read_index(question)

    def propose(self, payload: bytes) -> None:
        """Ask for an entry. Raises RaftError."""
        self.raft.propose(payload)
        self._count.look()

    def add_voter(self, peer_id: PeerId, directory_id: str) -> None:
        """Ask for one more voter. Raises RaftError."""
        self.raft.add_voter(peer_id, f"host{peer_id}:1", DirectoryId(directory_id))
        self._count.look()

    def remove_voter(self, peer_id: PeerId) -> None:
        """Ask for a voter to be removed. Raises RaftError."""
        self._count.asked_to_remove(peer_id)
        self.raft.remove_voter(peer_id)
        self._count.look()

    def compact(self) -> None:
        """Make a snapshot of what is applied, or of a part of it."""
        first, last = self.store.snapshot.index + 1, self._applied
        if self.writing or self.durable or last < first:
            return
        draw, log = self._group.random, self._core.log
        changes = [
            at for at in range(first, last + 1) if _is_change(log.configurations, RaftIndex(at))
        ]
        index = RaftIndex(draw.choice((last, draw.randint(first, last), *changes[-2:])))
        term = self.raft.term_at(index)
        if term is None:
            return
        data = state_at(index, term)
        made = self._count.compact(lambda: self.raft.compact(index, data), index)
        if made is not None:
            self.store.keep(made)

    # --- work ----------------------------------------------------------------------------------

    def collect(self) -> bool:
        """Ask for work, and send what may go at once; return whether there was any."""
        ready = self._count.ready(self.raft.ready)
        self._look()
        if ready is None:
            return False
        self._send(ready.messages, NO_TERM)
        self.writing.append(ready)
        return True

    def write(self) -> bool:
        """Let the disk finish the oldest write; return whether there was any."""
        if not self.writing:
            return False
        ready, store = self.writing.popleft(), self.store
        if ready.snapshot is not None:
            store.snapshot, store.entries = ready.snapshot, {}
        if ready.entries:
            first = ready.entries[0].index
            store.entries = {at: entry for at, entry in store.entries.items() if at < first}
            store.entries |= {entry.index: entry for entry in ready.entries}
        if ready.hard_state is not None:
            self._group.promises.writes(store, ready.hard_state)
            store.cached = ready.hard_state
        store.note_written()
        if ready.must_sync:
            self.flush()
        self.durable.append(ready)
        return True

    def flush(self) -> None:
        """Make all that was written durable."""
        self.store.state, self.store.cached = self.store.cached or self.store.state, None

    def finish(self) -> bool:
        """Do what waits for the oldest write; return whether there was any."""
        if not self.durable:
            return False
        ready, promises = self.durable.popleft(), self._group.promises
        written = ready.hard_state
        self._send(ready.messages_persisted, NO_TERM if written is None else written.term)
        if ready.snapshot is not None:
            promises.installs(self.store, ready.snapshot)
            self._applied = ready.snapshot.index
        self._applied = promises.applies(self.store, self._applied, ready.committed)
        for read in ready.reads:
            promises.answers(self.store, read.context, read.read_index)
            self._group.answered.add(read.context)
        self.raft.advance(ready)
        self._count.look()
        self._count.look_at_disk()
        self._look()
        return True

    def settle(self) -> None:
        """Do all the work that the disk lets it do."""
        while self.collect() or (not self.is_slow and self.write()) or self.finish():
            pass

    def _send(self, messages: tuple[Outgoing, ...], work_term: Term) -> None:
        for to, message in messages:
            self._group.promises.says(self.store, to, message, work_term=work_term)
            self._group.post(to, message)

    def _look(self, first: int | None = None) -> None:
        last, agreed, led = self._known
        raft, promises, log = self.raft, self._group.promises, self._core.log
        role = raft.role
        self._known = log.last_index, log.commit_index, (role, raft.term)
        if first is not None or log.last_index != last:
            promises.looked(raft, last + 1 if first is None else first)
        if log.commit_index > agreed:
            promises.agrees(raft, agreed, self._group.all_stores)
        if role is Role.LEADER and self._known[2] != led:
            promises.leads(raft)


def _is_change(voters: ConfigurationHistory, index: RaftIndex) -> bool:
    return voters.at(index) is not voters.at(RaftIndex(index - 1))


class Group:
    """The members, and what is between them."""

    def __init__(
        self,
        stores: list[Store],
        first_voters: Peers,
        config: RaftConfig,
        draw: Random,
        found: Found,
    ) -> None:
        self.config = config
        self.first_voters = first_voters
        self.random = draw
        self.found = found
        self.promises = RaftPromises(found)
        self.stores = {store.seat[0]: store for store in stores}
        """By peer id; that of the newest directory."""
        self.all_stores = list(stores)
        """With those that were lost, as they were then."""
        self.stores_by_seat: dict[Seat, Store] = {store.seat: store for store in stores}
        self.members: dict[PeerId, Member] = {}
        self.twins: dict[PeerId, Member] = {}
        """Peer id -> the process of a directory that was replaced."""
        self.wire: list[tuple[PeerId, Message]] = []
        self.cut: set[tuple[PeerId, PeerId]] = set()
        self.paused: set[PeerId] = set()
        self.answered: set[int] = set()

    @property
    def everybody(self) -> list[Member]:
        """All that run, with twins."""
        return [*self.members.values(), *self.twins.values()]

    @property
    def awake(self) -> list[Member]:
        """All that run and are not paused."""
        return [one for one in self.everybody if one.peer_id not in self.paused]

    @property
    def leader(self) -> Member | None:
        """The leader of the newest term that is led."""
        leading = [one for one in self.everybody if one.raft.role is Role.LEADER]
        return max(leading, key=lambda one: one.raft.term, default=None)

    def start(self, peer_id: PeerId) -> None:
        """Start a process on what its disk holds."""
        member = Member(self, peer_id, self.stores[peer_id])
        self.members[peer_id] = member
        log = member.raft._core.log  # noqa: SLF001
        self.promises.looked(member.raft, log.first_index)
        self.promises.agrees(member.raft, log.snapshot.index, self.all_stores)

    def stop(self, peer_id: PeerId, *, has_power: bool = True) -> None:
        """End a process: what it was writing is lost, and what it would have read.

        Without power also what was written and not synced.
        """
        member = self.members.pop(peer_id, None)
        if member is None:
            return
        if has_power:
            member.flush()
        member.store.cached = None
        self.paused.discard(peer_id)
        if peer_id not in self.twins:
            self.wire = [one for one in self.wire if one[0] != peer_id]

    def replace(self, peer_id: PeerId, directory_id: str, *, has_twin: bool) -> None:
        """Give a member an empty disk; the process on the old one ends, or lives on beside it."""
        if has_twin and peer_id in self.members:
            self.twins[peer_id] = self.members.pop(peer_id)
        self.stop(peer_id)
        store = Store(peer_id, DirectoryId(directory_id))
        self.stores[peer_id] = self.stores_by_seat[store.seat] = store
        self.all_stores.append(store)

    def post(self, to: PeerId, message: Message) -> None:
        """Put a message on its way."""
        if (message.sender, to) not in self.cut:
            self.wire.append((to, message))
        del self.wire[: max(0, len(self.wire) - WIRE_MAX)]

    def deliver(self, position: int) -> None:
        """Let one message arrive."""
        to, message = self.wire.pop(position)
        if to in self.paused:
            self.wire.append((to, message))
            return
        there = [one[to] for one in (self.members, self.twins) if to in one]
        if there and (message.sender, to) not in self.cut:
            self.random.choice(there).step(message)

    def settle(self, *, rounds: int = 60) -> None:
        """Do all work and let all messages arrive, in their order."""
        for _ in range(rounds):
            for member in self.awake:
                member.settle()
            count = len(self.wire)
            if not count:
                return
            for _number in range(count):
                if self.wire:
                    self.deliver(0)
