"""Random walks of the controllers' Raft group, from copies of a run's logs.

    logs, terms, votes of a run ─► the same cores, in memory ─► a period of faults ─► calm ─► ...
        late, lost, doubled and reordered messages, slow and lost disks, pauses, crashes, cuts;
        changes of voters, transfers, reads, snapshots       (checks after every step)
                                  in calm: there is a leader, which commits, reads and transfers;
                                  all members catch up, and vote with their own directories

A run has a few elections and loses a disk or two; a walk does that a thousand times a second. Some
groups begin in the state of the run, some without directory ids, some are not founded yet.

Source: docs/adr/0063; as tests/raft/test_safety.py, here from the states of whole clusters.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from random import Random
from typing import NamedTuple

from penstock.base.ids import PeerId
from penstock.base.invariant import InvariantViolation
from penstock.raft.config import RaftConfig
from penstock.raft.configuration import Configuration, Peers
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.errors import RaftError
from penstock.raft.ids import DirectoryId
from penstock.raft.messages import AppendEntries, TimeoutNow
from penstock.raft.ready import Role
from simulator.checks.raft.promises import Store, state_at
from simulator.trials.raft import View
from simulator.trials.raft_group import Group, Member

SPELLS, STEPS = 3, 250
CALM_TICKS_MAX = 600
"""Within so many ticks a healthy group completes a request. It takes about 40."""
NEWCOMER = PeerId(90)
"""A member that the run does not have, so that a group can have an even number of voters."""

Found = Callable[[str], None]
Ask = Callable[[Member, PeerId], object]


class Voters(NamedTuple):
    """The state of a run: the logs of all members, and the voters in the settings."""

    views: dict[PeerId, View]
    first_voters: Peers


class NotCalm(Exception):
    """A quiet group did not do what it must; the text says what."""


def config_of(draw: Random) -> RaftConfig:
    """Return settings that let everything happen soon, and windows fill."""
    return RaftConfig(
        heartbeat_ticks=2,
        election_ticks_min=10,
        election_ticks_max=20,
        lost_leader_ticks_max=3,
        entries_bytes_max=1024,
        inflight_messages_max=draw.choice((1, 2, 5)),
        apply_bytes_max=draw.choice((1024, 1 << 20)),
        snapshot_chunk_bytes=draw.choice((20, 200)),
        compaction_keep_bytes=draw.choice((0, 100, 1000)),
        learner_hello_ticks=4,
        learner_timeout_ticks=40,
        learner_lag_entries_max=3,
    )


class Begin(Enum):
    """As what a group begins."""

    AS_IT_WAS = "as it was"
    WITHOUT_IDS = "as it would be if it had begun before directories had ids"
    NOT_FOUNDED = "of empty directories"


BEGINS = (Begin.AS_IT_WAS, Begin.AS_IT_WAS, Begin.WITHOUT_IDS, Begin.NOT_FOUNDED)


def stores_of(voters: Voters, begin: Begin) -> list[Store]:
    """Return the disks with which a group begins."""
    stores = []
    for peer_id, view in voters.views.items():
        has_id = begin is not Begin.WITHOUT_IDS
        store = Store(peer_id, DirectoryId(view.directory_id if has_id else ""))
        if begin is not Begin.NOT_FOUNDED:
            _fill(store, view, has_ids=has_id)
        stores.append(store)
    return [*stores, Store(NEWCOMER, DirectoryId("newcomer"))]


def _fill(store: Store, view: View, *, has_ids: bool) -> None:
    snapshot, entries = view.snapshot, view.entries
    data = state_at(snapshot.index, snapshot.term) if snapshot.index else b""
    voters = snapshot.configuration if has_ids else _nameless(snapshot.configuration)
    store.snapshot = replace(snapshot, data=data, configuration=voters)
    store.entries = entries if has_ids else {at: _older(entry) for at, entry in entries.items()}
    store.state = view.state


def _nameless(voters: Configuration) -> Configuration:
    return Configuration.of(voters.addresses)


def _older(entry: Entry) -> Entry:
    if entry.kind is not EntryKind.CONFIGURATION:
        return entry
    return replace(entry, payload=_nameless(Configuration.decode(entry.payload)).encode())


class RaftWalk:
    """One group. `go` once."""

    def __init__(self, voters: Voters, draw: Random, found: Found) -> None:
        self._random = draw
        self._found = found
        self.told: list[str] = []
        self._begin = draw.choice(BEGINS)
        stores = stores_of(voters, self._begin)
        self.group = Group(stores, voters.first_voters, config_of(draw), draw, self.told.append)
        self._numbers = 0
        self.steps = 0
        is_founded = self._begin is not Begin.NOT_FOUNDED
        rough = draw.choice((0.3, 1.0, 3.0)) if is_founded else 3.0
        calm: list[tuple[float, Callable[[], None]]] = [
            (40, self._deliver),
            (25, self._work),
            (25, self._flow),
            (25, self._tick),
            (8, self._propose),
            (3, self._read),
            (2, self._compact),
            (1, self._transfer),
            (2, self._change),
            (1, self._wait),
        ]
        bad: list[tuple[float, Callable[[], None]]] = [
            (2, self._drop),
            (2, self._double),
            (1, self._crash),
            (1.5, self._restart),
            (1, self._cut),
            (3, self._heal),
            (0.5, self._pause),
            (1, self._lose_connection),
            (0.7, self._slow_disk),
            (1.0 if is_founded else 2.0, self._replace_disk),
        ]
        self._actions = [*calm, *((rough * weight, action) for weight, action in bad)]

    def go(self) -> None:
        """Live, and tell what was wrong first."""
        try:
            for peer_id in self.group.stores:
                if self._begin is not Begin.NOT_FOUNDED or self._random.random() < 0.4:
                    self.group.start(peer_id)
            for _ in range(SPELLS):
                self._spell()
                if not self.told:
                    self._calm()
        except NotCalm as error:
            self.told.append(str(error))
        except (InvariantViolation, RaftError, AssertionError, KeyError) as error:
            self.told.append(f"a member stops: {error!r}")
        if self.told:
            self._found(f"the controllers, had they lived on under bad luck: {self.told[0]}")

    def _spell(self) -> None:
        weights = [weight for weight, _ in self._actions]
        actions = [action for _, action in self._actions]
        for action in self._random.choices(actions, weights, k=STEPS):
            if self.told:
                return
            self.steps += 1
            action()

    def _anybody(self) -> Member | None:
        awake = self.group.awake
        return self._random.choice(awake) if awake else None

    # --- what goes well ------------------------------------------------------------------------

    def _deliver(self) -> None:
        wire = self.group.wire
        if wire:  # mostly in order, as on a connection
            self.group.deliver(self._random.choice((0, 0, 0, self._random.randrange(len(wire)))))

    def _work(self) -> None:
        if member := self._anybody():
            self._random.choice((member.collect, member.write, member.finish, member.settle))()

    def _flow(self) -> None:
        for _ in range(self._random.randrange(14)):
            if member := self._anybody():
                member.settle()
            if self.group.wire:
                self.group.deliver(0)

    def _tick(self) -> None:
        if self._random.random() < 0.5:
            for member in self.group.awake:
                member.tick()
        elif one := self._anybody():
            one.tick()

    def _wait(self) -> None:
        """Time passes with the present faults."""
        for _ in range(self._random.choice((5, 15, 30))):
            for member in self.group.awake:
                member.tick()
            self.group.settle(rounds=4)

    # --- what is asked for ---------------------------------------------------------------------

    def _ask(self, ask: Ask) -> None:
        """Send a request to a member that considers itself leader."""
        for member in self.group.awake:
            if member.raft.role is Role.LEADER:
                with suppress(RaftError):
                    ask(member, self._random.choice(list(self.group.stores)))

    def _propose(self) -> None:
        size = self._random.choice((3, 3, 600))
        self._ask(lambda member, _: member.propose(b"." * size))

    def _read(self) -> None:
        self._ask(lambda member, _: member.ask(self._number()))

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _compact(self) -> None:
        if member := self._anybody():
            member.compact()

    def _transfer(self) -> None:
        self._ask(lambda member, to: member.raft.transfer(to))

    def _change(self) -> None:
        stores = self.group.stores
        if self._random.random() < 0.6:
            self._ask(lambda member, peer: member.add_voter(peer, stores[peer].directory_id))
        elif self._is_whole():  # who takes one of three while another has no disk has no group
            self._ask(lambda member, peer: member.remove_voter(peer))
        if self._random.random() < 0.5:
            self._flow()
            self._propose()
            if self._random.random() < 0.5 and (leader := self.group.leader):
                self._cut_off([leader.peer_id])

    # --- bad luck ------------------------------------------------------------------------------

    def _drop(self) -> None:
        wire = self.group.wire
        for _ in range(self._random.choice((1, 1, 4))):
            if wire:
                wire.pop(self._random.randrange(len(wire)))

    def _double(self) -> None:
        if self.group.wire:
            self.group.wire.append(self._random.choice(self.group.wire))

    def _crash(self) -> None:
        if member := self._anybody():
            has_power = self._random.random() < 0.5
            if member.peer_id in self.group.members:
                self.group.stop(member.peer_id, has_power=has_power)

    def _restart(self) -> None:
        down = [store for store in self.group.stores if store not in self.group.members]
        if down:
            self.group.start(self._random.choice(down))

    def _cut(self) -> None:
        count = self._random.choice((1, 1, 2))
        self._cut_off(self._random.sample(list(self.group.stores), count))

    def _cut_off(self, some: list[PeerId]) -> None:
        for one in some:
            for other in self.group.stores:
                if other not in some:
                    self.group.cut |= {(one, other), (other, one)}
        if self._random.random() < 0.3:  # one way only
            self.group.cut = {pair for pair in self.group.cut if pair[0] in some}

    def _heal(self) -> None:
        self._random.choice((self.group.cut.clear, self.group.paused.clear, self._hurry_disks))()

    def _hurry_disks(self) -> None:
        for member in self.group.everybody:
            member.is_slow = False

    def _pause(self) -> None:
        if member := self._anybody():
            self.group.paused.add(member.peer_id)

    def _slow_disk(self) -> None:
        if member := self._anybody():
            member.is_slow = True

    def _lose_connection(self) -> None:
        if member := self._anybody():
            member.peer_lost(self._random.choice(list(self.group.stores)))

    # --- lost disks ----------------------------------------------------------------------------

    def _replace_disk(self) -> None:
        """Lose a disk; of voters one at a time, and the next only when it has its vote back."""
        group, victim = self.group, self._random.choice(list(self.group.stores))
        if not self._is_spare(victim):
            return
        leader = group.leader
        is_led = leader is not None and leader.peer_id != victim and not group.twins
        is_large = is_led and leader is not None and len(leader.raft.configuration.voters) > 2
        has_twin = is_large and self._random.random() < 0.4
        group.replace(victim, f"directory {self._number()}", has_twin=has_twin)
        if self._random.random() < 0.7:
            group.start(victim)

    def _is_spare(self, victim: PeerId) -> bool:
        group = self.group
        _founder, *rest = sorted(one for one, _ in group.first_voters)
        if victim not in rest and self._is_unfounded(but=victim):  # the word of the rest may count
            group.promises.forget_entries()
            return True
        leader = group.leader
        if leader is None or not self._is_whole() or self._has_changes_behind(leader):
            return False
        voters = leader.raft.configuration
        is_enough = len(voters.voters) > 2 or not voters.has(victim)
        others = [one for one, _ in group.first_voters if one != victim]
        return is_enough and any(not group.stores[other].is_empty for other in others)

    def _is_unfounded(self, but: PeerId) -> bool:
        """Whether all other members have empty logs."""
        group = self.group
        others = [one.raft.last_index for one in group.everybody if one.peer_id != but]
        disks = [store for peer_id, store in group.stores.items() if peer_id != but]
        return (
            not group.promises.agreed
            and not any(others)
            and all(disk.is_empty for disk in disks)
            and not any(isinstance(message, AppendEntries) for _, message in group.wire)
        )

    def _has_changes_behind(self, leader: Member) -> bool:
        """Whether any member has a change of voters that another may not have."""
        agreed = leader.raft.commit_index
        logs: list[Iterable[Entry]] = [store.entries.values() for store in self.group.all_stores]
        logs += [one.raft._core.log._entries for one in self.group.everybody]  # noqa: SLF001
        newest = max(one.raft.term for one in self.group.everybody)
        return leader.raft.term < newest or any(
            entry.index > agreed and entry.kind is EntryKind.CONFIGURATION
            for entries in logs
            for entry in entries
        )

    def _is_whole(self) -> bool:
        """Whether every voter in any configuration has its own directory."""
        group = self.group
        known = [one.raft.configuration for one in group.everybody]
        return not (group.twins or any(one.vacant for one in known)) and all(
            group.stores[peer_id].directory_id == one.directory_of(peer_id)
            for one in known
            for peer_id in one.voter_ids
        )

    # --- calm ----------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Heal everything: then the group must work and complete requests."""
        group = self.group
        group.cut.clear()
        group.paused.clear()
        self._hurry_disks()
        self._end_twins()
        for peer_id in group.stores:
            if peer_id not in group.members:
                group.start(peer_id)
        self._until(self._is_led, "leads")
        for _ in range(3):
            self._until_agreed()
        self._until(self._is_everybody_there, "votes with the directory that it has")
        self._until_read()
        self._hand_over()

    def _end_twins(self) -> None:
        """Of two processes with one id the one that votes stays."""
        group, leader = self.group, self.group.leader
        for peer_id, twin in group.twins.items():
            stays = leader is None or leader.raft.configuration.is_voter(
                peer_id, DirectoryId(twin.store.directory_id)
            )
            if stays:
                group.stop(peer_id)
                group.members[peer_id] = twin
                group.stores[peer_id] = twin.store
        group.twins.clear()

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        group = self.group
        for _ in range(CALM_TICKS_MAX):
            if self.told or is_so():
                return
            for member in group.awake:
                member.tick()
                self.steps += 1
            group.settle()
        raise NotCalm(f"for {CALM_TICKS_MAX} quiet ticks nobody {what}: {self._text()}")

    def _is_led(self) -> bool:
        leader = self.group.leader
        return leader is not None and leader.raft.leadership.is_leader

    def _until_agreed(self) -> None:
        """Propose until an entry is committed; the leader may have to change first."""
        before, proposed = self.group.promises.agreed, -1

        def is_agreed() -> bool:
            nonlocal proposed
            leader = self.group.leader
            if leader is not None and leader.raft.term != proposed:
                with suppress(RaftError):
                    leader.propose(b"calm")
                    proposed = leader.raft.term
            return self.group.promises.agreed > before and proposed >= 0

        self._until(is_agreed, "agrees on a proposal")

    def _is_everybody_there(self) -> bool:
        leader = self.group.leader
        if leader is None or leader.raft.configuration.vacant:
            return False
        voters, agreed = leader.raft.configuration, leader.raft.commit_index
        return all(
            member.raft.applied_index == agreed
            and (not voters.has(member.peer_id) or voters.is_voter(*member.store.seat))
            for member in self.group.members.values()
        )

    def _until_read(self) -> None:
        asked: list[int] = []

        def is_read() -> bool:
            if len(asked) % 20 == 0:
                self._ask(lambda member, _: member.ask(asked[-1]))
            asked.append(self._number())
            return bool(self.group.answered.intersection(asked))

        asked.append(self._number())
        self._until(is_read, "answers a read")

    def _hand_over(self) -> None:
        """Transfer leadership to another voter; the first message is lost and repeated."""
        group, leader = self.group, self.group.leader
        assert leader is not None, "a quiet group is led"
        others = [
            voter_id
            for voter_id in leader.raft.configuration.voter_ids
            if voter_id != leader.peer_id
        ]
        if not others:
            return
        to, term = self._random.choice(others), leader.raft.term
        leader.raft.transfer(to)
        leader.settle()
        group.wire = [one for one in group.wire if not isinstance(one[1], TimeoutNow)]
        for _ in range(group.config.election_ticks_min + 2):
            leader.tick()
            leader.settle()
            group.settle()
        if leader.raft.term == term and not self.told:
            leader.raft.transfer(to)
            self._until(lambda: _leads(group.members[to]), f"hands over to {to}")

    def _text(self) -> str:
        return ", ".join(
            f"{one.store.name} {one.raft.role} term {one.raft.term}"
            f" agreed {one.raft.commit_index} of {one.raft.last_index}"
            for one in self.group.everybody
        )


def _leads(member: Member) -> bool:
    return member.raft.role is Role.LEADER
