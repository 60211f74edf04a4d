"""Replays: records of an archive stand in a topic once, whatever dies when."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.archive.errors import ArchiveLies, ReplayRefused, ReplayStopped
from penstock.archive.replay import replaying
from penstock.archive.replay.pace import Pace
from penstock.archive.replay.plan import Kind, Place
from penstock.archive.replay.progress import Progress
from penstock.archive.replay.replaying import Replay, ReplayOptions, ReplaySummary
from penstock.client.cluster import Cluster
from penstock.client.connection import Connection
from penstock.client.errors import BrokerError
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.produce import Producer
from penstock.client.settings import ClientSettings
from penstock.client.transactions import Transactions
from penstock.protocol.api_keys import ApiKey
from penstock.record.build import Record
from penstock.record.committed import committed_pieces
from penstock.record.read import DecodedRecord, iter_batches, iter_records
from tests.archive.world import DAY_MS, Died, copied, ledger_at
from tests.spark.topics import NOON_MS, Topics

FOR_EVER = {"retention.ms": "-1"}
ALL = Place(Kind.BEGINNING), Place(Kind.END)


def committed(topics: Topics, topic: str, partition: int = 0) -> list[DecodedRecord]:
    """What a reader of committed records gets."""
    end = topics.end(topic, partition)
    options = FetchOptions(is_committed_only=True)
    runs = PartitionFetcher(topics.cluster, topic, partition, start=0, end=end, options=options)
    return [
        record
        for run in runs
        for piece in committed_pieces(run.data, run.aborted)
        for header, batch in iter_batches(piece)
        if not header.is_control
        for record in iter_records(batch)
    ]


def replayed(
    topics: Topics, archive: Path, target: str, pace: Pace | None = None, **options: Any
) -> ReplaySummary:
    with ledger_at(archive) as ledger:
        settled = ReplayOptions(topic=target, **{"places": ALL, **options})
        return Replay(topics.cluster, ledger.files, ledger.existing(), settled, pace).run()


def filled(topics: Topics, archive: Path, partitions: int = 1, count: int = 20) -> str:
    """Make a topic with an archive of it; each value is partition:offset, times jump by days."""
    topic = topics.make(partitions)
    for partition in range(partitions):
        topics.send(
            topic,
            [
                Record(
                    b"k%d" % (n % 7),
                    b"%d:%d" % (partition, n),
                    (("n", b"%d" % n), ("x", None)),
                    NOON_MS + (n % 2) * DAY_MS + n,
                )
                for n in range(count)
            ],
            partition=partition,
        )
    copied(archive, topics.bootstrap, topic)
    return topic


def _what(records: list[DecodedRecord]) -> list[tuple[Any, ...]]:
    return [record[1:] for record in records]


def test_records_stand_in_their_partition_with_all_they_had(topics: Topics, archive: Path) -> None:
    source = filled(topics, archive, 2)
    target = topics.make(3, FOR_EVER)
    summary = replayed(topics, archive, target, is_same_partitions=True)
    assert summary.records == 40
    for partition in (0, 1):
        assert _what(committed(topics, target, partition)) == _what(topics.read(source, partition))
    assert committed(topics, target, 2) == []


def test_otherwise_keys_say_the_partition_and_their_order_stays(
    topics: Topics, archive: Path
) -> None:
    filled(topics, archive)
    target = topics.make(3, FOR_EVER)
    replayed(topics, archive, target, transaction_records=6)
    found = [committed(topics, target, partition) for partition in range(3)]
    keys = [{record.key for record in records} for records in found]
    assert sum(map(len, keys)) == len(set().union(*keys)) == 7
    for records in found:
        offsets = [int((record.value or b"").partition(b":")[2]) for record in records]
        assert offsets == sorted(offsets)
    assert sum(map(len, found)) == 20


def test_a_second_replay_writes_only_what_was_archived_since(topics: Topics, archive: Path) -> None:
    source = filled(topics, archive, count=5)
    target = topics.make(1, FOR_EVER)
    assert replayed(topics, archive, target).records == 5
    assert replayed(topics, archive, target).records == 0
    topics.fill(source, [b"new"])
    copied(archive, topics.bootstrap, source)
    assert replayed(topics, archive, target).records == 1
    assert len(committed(topics, target)) == 6


def test_another_id_writes_all_again(topics: Topics, archive: Path) -> None:
    filled(topics, archive, count=3)
    target = topics.make(1, FOR_EVER)
    for number in range(2):
        assert replayed(topics, archive, target, replay_id=f"{target}-{number}").records == 3
    assert len(committed(topics, target)) == 6


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((Place(Kind.OFFSET, 5), Place(Kind.END)), range(5, 20)),
        ((Place(Kind.OFFSET, 5), Place(Kind.OFFSET, 8)), range(5, 8)),
        ((Place(Kind.BEGINNING), Place(Kind.OFFSET, 99)), range(20)),
        ((Place(Kind.TIME, NOON_MS + 4), Place(Kind.END)), range(1, 20)),
        ((Place(Kind.TIME, NOON_MS + DAY_MS + 4), Place(Kind.END)), range(5, 20)),
        ((Place(Kind.BEGINNING), Place(Kind.TIME, NOON_MS + DAY_MS + 5)), range(5)),
        ((Place(Kind.TIME, NOON_MS + 9 * DAY_MS), Place(Kind.END)), range(0)),
        ((Place(Kind.OFFSET, 8), Place(Kind.OFFSET, 5)), range(0)),
    ],
)
def test_a_replay_goes_from_a_place_to_a_place(
    topics: Topics, archive: Path, places: tuple[Place, Place], expected: range
) -> None:
    filled(topics, archive)
    target = topics.make(1, FOR_EVER)
    replayed(topics, archive, target, places=places)
    found = [int((one.value or b"").partition(b":")[2]) for one in committed(topics, target)]
    assert found == list(expected)


_SENT = {ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID}


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_replay_that_dies_at_any_request_loses_and_doubles_nothing(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    filled(topics, archive, 2, count=6)
    monkeypatch.setattr(Replay, "_give_up", lambda *_: None)  # as where nothing runs any more
    expected = Counter(b"%d:%d" % (p, n) for p in (0, 1) for n in range(6))
    dies_at, has_died, send = 0, True, Connection.send
    while has_died:
        dies_at, asked = dies_at + 1, itertools.count(1)

        def dying(
            self: Connection, key: ApiKey, *rest: Any, asked: Any = asked, at: int = dies_at
        ) -> None:
            is_last = key in _SENT and next(asked) == at
            if is_last and not is_sent:
                raise Died
            send(self, key, *rest)
            if is_last:
                raise Died

        target = topics.make(2, FOR_EVER)
        monkeypatch.setattr(Connection, "send", dying)
        settings = ClientSettings(bootstrap=topics.bootstrap, deadline_ms=120_000)
        with Cluster(settings) as cluster, ledger_at(archive) as ledger:
            options = ReplayOptions(topic=target, places=ALL, transaction_records=4)
            try:
                Replay(cluster, ledger.files, ledger.existing(), options).run()
                has_died = False
            except Died:
                pass
        monkeypatch.setattr(Connection, "send", send)
        replayed(topics, archive, target, transaction_records=4)
        found = Counter(one.value for p in (0, 1) for one in committed(topics, target, p))
        assert found == expected, dies_at
    assert dies_at > 12


def test_of_two_replays_of_an_id_one_stops_and_nothing_is_double(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(topics, archive, count=12)
    target = topics.make(1, FOR_EVER)
    wait, is_first = Pace.wait, iter([False, True])

    def overtaken(self: Pace, count: int) -> None:
        if next(is_first, False):  # between the first transaction and the second
            monkeypatch.setattr(Pace, "wait", wait)
            replayed(topics, archive, target, transaction_records=4)
        wait(self, count)

    monkeypatch.setattr(Pace, "wait", overtaken)
    with pytest.raises(ReplayStopped, match="another replay of the id"):
        replayed(topics, archive, target, transaction_records=4)
    assert [one.value for one in committed(topics, target)] == [b"0:%d" % n for n in range(12)]


def test_positions_are_read_once_nobody_else_can_move_them(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(topics, archive, count=6)
    target = topics.make(1, FOR_EVER)
    abort = Transactions.abort

    def behind_another(self: Transactions, name: str) -> None:
        monkeypatch.setattr(Transactions, "abort", abort)
        assert replayed(topics, archive, target).records == 6
        abort(self, name)

    monkeypatch.setattr(Transactions, "abort", behind_another)
    assert replayed(topics, archive, target).records == 0
    assert len(committed(topics, target)) == 6


def test_a_replay_that_is_overtaken_as_it_begins_to_write_writes_nothing(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(topics, archive, count=12)
    target = topics.make(1, FOR_EVER)
    flush, is_second = Producer.flush, iter([False, True])

    def overtaken(self: Producer) -> None:
        if next(is_second, False):
            monkeypatch.setattr(Producer, "flush", flush)
            replayed(topics, archive, target, transaction_records=4)
        flush(self)

    monkeypatch.setattr(Producer, "flush", overtaken)
    with pytest.raises(ReplayStopped, match="another replay of the id"):
        replayed(topics, archive, target, transaction_records=4)
    assert [one.value for one in committed(topics, target)] == [b"0:%d" % n for n in range(12)]


def test_records_whose_position_is_refused_do_not_count_and_hold_nobody_up(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(topics, archive, count=3)
    target = topics.make(1, FOR_EVER)
    text = Progress._text
    monkeypatch.setattr(Progress, "_text", lambda *args: text(*args) + " " + "9:9 " * 2_000)
    with pytest.raises(BrokerError, match="OFFSET_METADATA_TOO_LARGE"):
        replayed(topics, archive, target, replay_id=target)
    state = Transactions(topics.cluster).describe(f"{replaying.PREFIX}{target}").state
    assert state in {"PrepareAbort", "CompleteAbort"}
    monkeypatch.setattr(Progress, "_text", text)
    assert replayed(topics, archive, target, replay_id=target).records == 3
    assert len(committed(topics, target)) == 3


def test_a_transaction_that_its_broker_aborted_does_not_count_as_written(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(topics, archive, count=6)
    target = topics.make(1, FOR_EVER)
    write = Progress.write

    def slow(self: Progress, transaction: Any, *rest: Any) -> None:
        write(self, transaction, *rest)
        Transactions(topics.cluster).abort(transaction.transactional_id)

    monkeypatch.setattr(Progress, "write", slow)
    with pytest.raises(ReplayStopped):
        replayed(topics, archive, target)
    monkeypatch.setattr(Progress, "write", write)
    replayed(topics, archive, target)
    assert len(committed(topics, target)) == 6


def test_another_range_under_the_same_id_is_refused(topics: Topics, archive: Path) -> None:
    filled(topics, archive, count=3)
    target = topics.make(1, FOR_EVER)
    replayed(topics, archive, target)
    others: tuple[dict[str, Any], ...] = (
        {"places": (Place(Kind.OFFSET, 1), Place(Kind.END))},
        {"places": (Place(Kind.BEGINNING), Place(Kind.OFFSET, 3))},
        {"is_same_partitions": True},
    )
    for options in others:
        with pytest.raises(ReplayStopped, match="--id"):
            replayed(topics, archive, target, **options)
    assert len(committed(topics, target)) == 3


def test_what_the_target_would_not_keep_as_it_is_is_refused(topics: Topics, archive: Path) -> None:
    filled(topics, archive, 2, count=3)
    cases: tuple[tuple[dict[str, str], int, dict[str, Any], str], ...] = (
        (FOR_EVER, 1, {"is_same_partitions": True}, "--partitions 2"),
        (FOR_EVER | {"message.timestamp.type": "LogAppendTime"}, 2, {}, "CreateTime"),
        ({"retention.ms": "3600000"}, 2, {}, r"retention\.ms=-1"),
    )
    for configs, partitions, options, said in cases:
        target = topics.make(partitions, configs)
        with pytest.raises(ReplayRefused, match=said):
            replayed(topics, archive, target, **options)
        assert topics.end(target) == 0
    replayed(topics, archive, target, ignores_retention=True)
    assert sum(len(committed(topics, target, p)) for p in (0, 1)) == 6


def test_compacted_topics_keep_what_is_old(topics: Topics, archive: Path) -> None:
    filled(topics, archive, count=3)
    target = topics.make(1, {"cleanup.policy": "compact", "retention.ms": "3600000"})
    assert replayed(topics, archive, target).records == 3


def test_nothing_of_a_damaged_chunk_is_written(topics: Topics, archive: Path) -> None:
    source = filled(topics, archive, count=4)
    topics.fill(source, [b"later"])
    copied(archive, topics.bootstrap, source)
    (last,) = archive.rglob(f"00000-{4:020d}-*.parquet")
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    target = topics.make(1, FOR_EVER)
    with pytest.raises(ArchiveLies, match=last.name):
        replayed(topics, archive, target)
    assert len(committed(topics, target)) == 4


def test_positions_are_found_again_when_the_target_has_more_partitions(
    topics: Topics, archive: Path
) -> None:
    source = filled(topics, archive, 3, count=4)
    target = topics.make(1, FOR_EVER)
    replayed(topics, archive, target)
    topics.admin.create_partitions(target, 2)
    for partition in range(3):
        topics.fill(source, [b"later"], partition=partition)
    copied(archive, topics.bootstrap, source)
    assert replayed(topics, archive, target).records == 3
    assert replayed(topics, archive, target).records == 0


def test_what_was_pruned_before_it_was_replayed_is_told(topics: Topics, archive: Path) -> None:
    from penstock.archive.pruning import prune

    source = filled(topics, archive, count=4)
    target = topics.make(1, FOR_EVER)
    replayed(topics, archive, target)
    for _ in range(2):
        topics.fill(source, [b"later"])
        copied(archive, topics.bootstrap, source)
    with ledger_at(archive) as ledger:
        chunks = ledger.existing().parts[0].chunks
        limit = chunks[1].last_ms + 1 if chunks[1].last_ms >= chunks[0].last_ms else None
        prune(ledger, keep_ms=1, now_ms=(limit or chunks[0].last_ms + 1) + 1)
        assert ledger.manifest.parts[0].start > 4
    with pytest.raises(ReplayRefused, match="--from"):
        replayed(topics, archive, target)


def test_records_with_the_same_key_meet_the_rate_in_portions() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(10, lambda: now[0], sleep)
    assert pace.portion(10_000) == 10
    assert pace.portion(3) == 3
    for _ in range(3):
        pace.wait(10)
    assert slept == [1.0, 1.0]
    now[0] += 60  # time that was lost is not made up for
    pace.wait(10)
    pace.wait(10)
    assert slept == [1.0, 1.0, 1.0]
    assert Pace(0.5).portion(100) == 1
    assert Pace(None).portion(100) == 100


def test_a_rate_below_one_record_a_second_is_kept(topics: Topics, archive: Path) -> None:
    filled(topics, archive, count=3)
    target = topics.make(1, FOR_EVER)
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    summary = replayed(topics, archive, target, Pace(0.25, lambda: now[0], sleep))
    assert summary.transactions == 3
    assert slept == [4.0, 4.0]


def test_transactions_are_bounded_by_bytes_too(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    topics.send(topic, [Record(None, b"v" * 100_000, (), NOON_MS) for _ in range(8)])
    copied(archive, topics.bootstrap, topic)
    target = topics.make(1, FOR_EVER)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replaying, "TRANSACTION_BYTES", 250_000)
        assert replayed(topics, archive, target).transactions == 4
    assert len(committed(topics, target)) == 8
