"""Nodes that stop dead, and damage, tried on copies of disks: what is wrong then is told."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.base.ids import LeaderEpoch, Offset, PeerId, ReplicaSetId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.raft.end_mark import EndMark
from penstock.runtime.raft.storage import RaftStorage
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.set_log import Chunk, SetLog
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptLog, ReadFailed
from penstock.storage.recover.active_columns import ActiveColumns
from penstock.storage.recover.recovery import Recovery
from simulator.kernel.disk import SimDisk
from simulator.run.one_run import Run, run_plan
from simulator.run.plan import Plan, Shape
from simulator.trials import damage as damage_trials
from simulator.trials import operations as disk_trials
from simulator.trials import raft as raft_trials
from simulator.trials.damage import LogDamage, Place, RaftDamage
from simulator.trials.logs import Known, LogTrial, Loss
from simulator.trials.operations import DiskTrials
from simulator.trials.raft import RaftTrial, open_raft
from simulator.trials.still_log import NEW_PARTITION, StillLog
from tests.sim.test_talk import members

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CONFIG = LogConfig(segment_bytes=65_536, first_segment_bytes=65_536, reserve_bytes=0)
DIRECTORY = "set-1"
SEEDS = range(16)


class Node:
    """A log on a disk, written to twice, and what is known of it."""

    def __init__(self, *, is_lying: bool = False) -> None:
        self.disk = SimDisk(Random(1))
        self.disk.is_lying = is_lying
        self.still = StillLog(self.disk, DIRECTORY, CONFIG)
        self.still.lead()
        self.still.confirm()
        self.still.lead()
        self.log = self.still.log
        self.known = Known(
            name="here",
            directory=DIRECTORY,
            config=CONFIG,
            live=self.disk,
            durable=self.log.durable_position,
            confirmed=self.log.end_position,
            is_same_log=True,
            log=self.log,
            has_retention=False,
            has_ended=False,
        )

    def told(self, loss: Loss, **known: Any) -> list[str]:
        """Return all that any seed finds."""
        texts: list[str] = []
        for seed in SEEDS:
            draw = Random(seed)
            trial = LogTrial(self.known._replace(**known), self.disk.duplicate("", draw), draw)
            trial._loss = loss
            texts += trial.findings()
        return texts

    def damaged(self) -> list[str]:
        """Return what any damage finds."""
        texts: list[str] = []
        for seed in range(100):
            draw = Random(seed)
            texts += LogDamage(self.known, self.disk.duplicate("", draw), draw).findings()
        return texts


def has(texts: list[str], part: str) -> bool:
    return any(part in text for text in texts)


# --- commit logs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss)
def test_a_sound_log_has_nothing_wrong_however_its_node_stops(loss: Loss) -> None:
    assert Node().told(loss) == []


def test_a_log_that_ends_below_what_was_durable() -> None:
    node = Node()
    texts = node.told(Loss.POWER, durable=node.log.end_position + 1)
    assert has(texts, "was durable")


def test_a_snapshot_that_calls_more_confirmed_than_masters_did() -> None:
    assert has(Node().told(Loss.POWER, confirmed=0), "confirmed, and masters 0")


def test_bytes_below_the_end_that_are_not_those_that_were_written() -> None:
    node, other = Node(), Node()
    other.disk.flip_bit(f"{DIRECTORY}/log/{0:020}.log", 50)
    assert has(node.told(Loss.KILL, live=other.disk), "was changed below the end")


Spoil = Callable[[SetLog], object]
SPOILT: list[tuple[Spoil, str]] = [
    (lambda log: log.epochs.append((LeaderEpoch(9), log.end_position)), "has the masterships"),
    (lambda log: setattr(log.partitions[NEW_PARTITION], "max_timestamp", 1), "in memory"),
    (lambda log: setattr(log.partitions[NEW_PARTITION], "log_start_offset", 1), "begins at 0"),
]


@pytest.mark.parametrize(("spoil", "told"), SPOILT)
def test_a_log_in_memory_that_is_not_the_one_on_the_disk(spoil: Spoil, told: str) -> None:
    node = Node()
    spoil(node.log)
    assert has(node.told(Loss.KILL), told)


def test_a_partition_that_only_memory_has() -> None:
    node = Node()
    key = NEW_PARTITION._replace(partition=5)
    other = node.log.open_partition(key)
    other.log_end_offset, other.last_end_position = Offset(1), node.log.end_position
    assert has(node.told(Loss.KILL), "lacks")


def test_a_dropped_partition_that_a_clean_snapshot_has() -> None:
    node = Node()
    node.still.confirm()
    node.still.close()
    node.log.partitions.pop(NEW_PARTITION)
    assert has(node.told(Loss.KILL, has_ended=True), "which was dropped")


def test_syncs_that_do_nothing_when_a_start_makes_certain_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node(is_lying=True)
    monkeypatch.setattr(Recovery, "_write_again", lambda *_: None)
    monkeypatch.setattr(
        SimDisk, "lies_about", lambda self, path: path.endswith(".log") and self.stats is not None
    )
    assert has(node.told(Loss.KILL), "and a loss of power")


def test_bytes_that_a_start_leaves_behind_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    inode = node.disk.names[f"{DIRECTORY}/log/{0:020}.log"]
    inode.data[-9:] = inode.durable[-9:] = b"leftovers"
    assert not has(node.told(Loss.KILL), "left behind")
    monkeypatch.setattr(
        Recovery,
        "_empty_tail",
        lambda _, active, file: setattr(active, "file", file),
    )
    assert has(node.told(Loss.KILL), "left behind the end")


def test_what_a_recycled_file_has_held_may_stay_behind_a_clean_end_and_a_frame_may_not() -> None:
    node, other = Node(), Node()
    path = f"{DIRECTORY}/log/{0:020}.log"
    node.still.confirm()
    node.still.close()
    inode = node.disk.names[path]
    inode.data[-9:] = inode.durable[-9:] = b"leftovers"
    assert node.told(Loss.POWER) == []
    begin = other.still.lead()
    end = other.still.lead()
    frames = other.disk.names[path].data[begin:end]
    inode.data[begin:end] = inode.durable[begin:end] = frames
    assert has(node.told(Loss.POWER), "a frame is left behind the end")


def test_a_number_that_two_partitions_share(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    numbered = LogParts.take_over

    def begin_anew(self: LogParts, recovery: Recovery) -> None:
        numbered(self, recovery)
        self._next_serial = 0

    monkeypatch.setattr(LogParts, "take_over", begin_anew)
    key = NEW_PARTITION._replace(partition=7)
    monkeypatch.setattr("simulator.trials.still_log.NEW_PARTITION", key)
    assert has(node.told(Loss.KILL), "share a number")


def test_reads_that_fail_and_reads_that_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()

    def fail(*_: object) -> Chunk:
        raise ReadFailed("no")

    monkeypatch.setattr(StillLog, "read", fail)
    assert has(node.told(Loss.KILL), "can not be read")
    monkeypatch.setattr(StillLog, "read", lambda *_: Chunk([], 0, 0))
    assert has(node.told(Loss.KILL), "there is nothing at offset")
    monkeypatch.setattr(StillLog, "read", lambda *_: Chunk([], 1, 1 << 40))
    assert has(node.told(Loss.KILL), "is read for")


def test_a_frame_that_claims_more_than_was_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    monkeypatch.setattr(SetLog, "flushed_position", property(lambda _: 0))
    assert has(node.told(Loss.KILL), "claims")


def test_a_log_that_does_not_start_and_one_that_verify_finds_fault_with() -> None:
    node, path = Node(), f"{DIRECTORY}/log/{0:020}.log"
    node.disk.flip_bit(path, node.log.end_position - 3)
    assert has(node.told(Loss.KILL), "can not start")
    node.disk.flip_bit(path, 50)
    trial = LogTrial(node.known, node.disk, Random(1))
    assert has(list(trial._whole()), "log/00000000000000000000.log")


# --- damage to commit logs -----------------------------------------------------------------------


def test_damage_to_a_sound_log_is_refused_or_told() -> None:
    assert Node().damaged() == []


def test_damage_at_the_end_that_is_taken_for_a_write_that_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Recovery, "_check_mark", lambda _: None)
    assert has(Node().damaged(), "nobody is told")


def test_bytes_that_are_served_though_they_are_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    found = LogDamage._batch_at

    def other(self: LogDamage, place: Place) -> object:
        batch = found(self, place)
        return None if batch is None else batch._replace(data=b"other")

    monkeypatch.setattr(damage_trials, "damage", lambda *_: None)
    monkeypatch.setattr(LogDamage, "_batch_at", other)
    texts = node.damaged()
    assert has(texts, "as other bytes than were written")
    assert has(texts, "starts without the segment")


def test_a_start_that_needs_a_derived_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ActiveColumns, segments: object) -> None:
        raise CorruptLog(DIRECTORY, 0, "no side file")

    node = Node()
    monkeypatch.setattr(ActiveColumns, "_scan", refuse)
    assert has(node.damaged(), ".side")


# --- metadata logs -------------------------------------------------------------------------------


def metadata(*terms: int, vote: int = 1) -> SimDisk:
    disk = SimDisk(Random(1))
    storage = open_raft(disk, PeerId(1))
    for index, term in enumerate(terms, 1):
        state = HardState(
            term=Term(term), voted_for=PeerId(vote), commit_index=RaftIndex(max(0, index - 2))
        )
        storage.write(state, [Entry(index=RaftIndex(index), term=Term(term))])
    storage.close()
    return disk


def raft_told(disk: SimDisk, loss: Loss = Loss.KILL) -> list[str]:
    texts: list[str] = []
    for seed in range(60):
        draw = Random(seed)
        trial = RaftTrial("here", PeerId(1), disk.duplicate("", draw), draw)
        trial._loss = loss
        texts += trial.findings()
    return texts


@pytest.mark.parametrize("loss", Loss)
def test_a_sound_metadata_log_has_nothing_wrong_however_its_node_stops(loss: Loss) -> None:
    assert raft_told(metadata(1, 1, 2, 4), loss) == []


def test_a_term_that_falls_and_a_vote_that_changes() -> None:
    assert has(raft_told(metadata(1, 3, 2)), "is in term 2, and was in 3")
    disk = metadata(1, 3)
    storage = open_raft(disk, PeerId(1))
    storage.write(HardState(term=Term(3), voted_for=PeerId(2)), [])
    assert has(raft_told(disk), "has voted for 2 in term 3, and for 1")
    storage.write(
        HardState(term=Term(3), voted_for=PeerId(2)), [Entry(index=RaftIndex(3), term=Term(9))]
    )
    assert has(raft_told(disk), "entry 3 is of a later term than 3")


def test_an_entry_that_is_lost_and_one_that_nobody_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = raft_trials.view_of

    def lose(storage: RaftStorage) -> raft_trials.View:
        view = seen(storage)
        kept = {index: one for index, one in view.entries.items() if index != 2}
        kept[RaftIndex(4)] = Entry(index=RaftIndex(4), term=Term(9))
        return view._replace(entries=kept, directory_id="x")

    monkeypatch.setattr(raft_trials, "view_of", lose)
    texts = raft_told(metadata(1, 1, 2))
    assert has(texts, "has lost entry 2 of term 1")
    assert has(texts, "has another entry 4, of term 9")
    assert has(texts, "is x, and was ")


def test_what_was_written_and_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = metadata(1, 1)
    monkeypatch.setattr(RaftStorage, "_sync", lambda *_: None)
    assert has(raft_told(disk), "write of (term 1")


def test_a_log_that_loses_its_entries_before_the_snapshot_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong_order(self: RaftStorage, snapshot: Snapshot) -> None:
        entries = [entry for entry in self.found.entries if entry.index > snapshot.index]
        self._rewrite(self._state, snapshot, entries)
        self._replace_snapshot(snapshot)

    monkeypatch.setattr(RaftStorage, "compact", wrong_order)
    assert has(raft_told(metadata(1, 1, 2)), "can not start")


def test_a_commit_mark_of_another_term_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def agreed(_: RaftStorage, found: raft_trials.View) -> object:
        last = found.snapshot.index + len(found.entries)
        return found._replace(state=replace(found.state, commit_index=RaftIndex(last)))

    disk = metadata(1, 1, 2)
    seen = raft_trials.view_of
    first = seen(open_raft(disk, PeerId(1)))
    monkeypatch.setattr(RaftStorage, "_with_mark", agreed)
    monkeypatch.setattr(
        RaftTrial, "_expected", lambda _, before, step: first if step == "mark" else None
    )
    monkeypatch.setattr(raft_trials, "STEPS", ("mark",))
    opened: Counter[str] = Counter()

    def before_the_mark(storage: RaftStorage) -> raft_trials.View:
        opened["views"] += 1
        view = seen(storage)
        return view if opened["views"] % 4 == 0 else view._replace(state=first.state)

    monkeypatch.setattr(raft_trials, "view_of", before_the_mark)
    assert has(raft_told(disk), "calls agreed")


def test_damage_to_a_metadata_log() -> None:
    for seed in range(60):
        draw = Random(seed)
        assert list(RaftDamage("here", PeerId(1), metadata(1, 1, 2), draw).findings()) == []


def test_damage_to_a_vote_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndMark, "read", lambda _: 0)
    found = [
        text
        for seed in range(60)
        for text in RaftDamage("here", PeerId(1), metadata(1, 1, 2), Random(seed)).findings()
    ]
    assert has(found, "starts with another state")


def test_two_snapshots_of_one_entry_with_other_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    trials = DiskTrials(lambda _: 0, told.append)
    server: Any = SimpleNamespace(
        disk=metadata(1), name="n1", host=SimpleNamespace(process_id=1), node=None
    )
    monkeypatch.setattr(disk_trials, "DAMAGE_SHARE", 0.0)
    trials._try_raft(server, "a write")
    trials._voters[0, 0] = Configuration.of(
        {PeerId(1): "elsewhere"}, {PeerId(1): DirectoryId("another")}
    )
    trials._try_raft(server, "a write")
    assert has(told, "the snapshot at 0 has")


# --- in a run ------------------------------------------------------------------------------------

PLAN = Plan(seed=3, shape=Shape(partitions=1, producers=1), settle_ms=300)


def test_operations_are_tried_in_a_run_and_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disk_trials, "SHARE", 40.0)
    counts: list[int] = []

    async def a_while(run: Run) -> None:
        await asyncio.sleep(0.3)
        _, member = members(run)[0]
        cut: list[object] = []
        member.log.truncate(member.log.end_position, cut.append)
        counts.append(run.invariants.trials.trials)

    assert run_plan(PLAN, a_while).findings == []
    assert counts[0] > 300


def test_what_a_process_leaves_that_ends_in_good_order_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []
    monkeypatch.setattr(disk_trials, "SHARE", 0.0)
    monkeypatch.setattr(disk_trials, "DAMAGE_SHARE", 0.0)
    monkeypatch.setattr(disk_trials, "RETENTION_SHARE", 0.0)
    tried = LogTrial.findings

    def note(self: LogTrial) -> object:
        names.append(self._known.name)
        assert self._known.has_ended
        assert self._known.log is not None
        return tried(self)

    monkeypatch.setattr(LogTrial, "findings", note)

    async def stop(run: Run) -> None:
        run.cluster.servers["n2"].stop()
        await asyncio.sleep(1.0)
        run.cluster.servers["n2"].start()

    assert run_plan(PLAN, stop).findings == []
    assert sorted(names) == [
        f"n2: set {ReplicaSetId(number)}, just after its end in good order" for number in (1, 2, 3)
    ]


def test_a_change_that_has_begun_may_cut_what_was_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_trials, "SHARE", 0.0)
    told: list[int] = []

    async def cut(run: Run) -> None:
        server, member = members(run)[0]
        key = server.name, member.replica_set_id
        trials = run.invariants.trials
        trials._durable[key] = 1 << 40
        position = member.log.epochs[-1][1]
        member.log.truncate(position, lambda _: None)
        await run.until(lambda: not member.log.is_busy)
        told.append(trials._durable[key] - position)

    run_plan(PLAN, cut)
    assert told == [0]
