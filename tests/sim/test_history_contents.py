"""Planted examples of what the judge says about batches, contents, retention and fenced epochs."""

from typing import Any

import pytest

from simulator.history import Anomaly, History, Outcome, Poll, Report, Rules, Send, judge


def acked(value: str, offset: int, **more: Any) -> Send:
    at = offset * 10
    return Send("p", 0, value, at, at + 5, Outcome.ACKED, offset)._replace(**more)


def unknown(value: str, at: int, **more: Any) -> Send:
    return Send("p", 0, value, at, None, Outcome.UNKNOWN, None)._replace(**more)


def poll(*records: tuple[int, str], at: int = 1000, **more: Any) -> Poll:
    return Poll("c", 0, records, at, at + 1)._replace(**more)


def final(*records: tuple[int, str], **more: Any) -> Poll:
    return Poll("final", 0, records, 5000, 5001)._replace(**more)


def found(history: History, rules: Rules | None = None) -> list[Anomaly]:
    return [finding.anomaly for finding in judge(history, rules).findings]


BATCH = [
    acked("x", 0),
    unknown("a", 10, batch=1),
    unknown("b", 11, batch=1),
    unknown("c", 12, batch=1),
    acked("y", 4),
]


@pytest.mark.parametrize(
    "records",
    [
        ((0, "x"), (1, "a"), (2, "b"), (4, "y")),  # its end is missing
        ((0, "x"), (2, "b"), (3, "c"), (4, "y")),  # its beginning
        ((0, "x"), (1, "a"), (3, "b"), (4, "y")),  # it has a hole
    ],
)
def test_a_part_of_a_batch_is_torn(records: tuple[tuple[int, str], ...]) -> None:
    assert Anomaly.TORN_BATCH in found(History(BATCH, [poll(*records)]))


def test_a_torn_batch_at_the_end_shows_when_everything_was_read() -> None:
    history = History(BATCH[:4], [final((0, "x"), (1, "a"), (2, "b"))])
    assert found(history) == []
    assert found(history, Rules(final_reader="final")) == [Anomaly.TORN_BATCH]


def test_a_whole_batch_or_none_of_it_is_clean() -> None:
    whole = [poll((0, "x"), (1, "a"), (2, "b"), (3, "c"), (4, "y"))]
    assert found(History(BATCH, whole)) == []
    assert found(History(BATCH, [poll((0, "x"), (4, "y"))])) == []


def test_batches_of_one_name_of_two_producers_are_two() -> None:
    sends = [unknown("a", 0, batch=1), unknown("b", 1, batch=1, producer="q")]
    assert found(History(sends, [poll((0, "b"), (7, "a"))])) == []


def test_other_contents_than_were_sent_are_a_mismatch() -> None:
    sends = [acked("a", 0, content=(77, 1)), acked("b", 1, content=(78, 2))]
    read = poll((0, "a"), (1, "b"))
    assert found(History(sends, [read])) == []
    assert found(History(sends, [read._replace(contents=((77, 1), (78, 2)))])) == []
    other_time = read._replace(contents=((77, 1), (79, 2)))
    other_bytes = read._replace(contents=((77, 9), (78, 2)))
    assert found(History(sends, [other_time, other_bytes._replace(is_fresh=True)])) == [
        Anomaly.MISMATCH,
        Anomaly.MISMATCH,
    ]


def test_what_was_deleted_below_the_start_is_not_lost() -> None:
    sends = [acked("a", 0), acked("b", 1), acked("c", 2)]
    polls = [poll((0, "a")), final((1, "b"), (2, "c"), start_offset=1)]
    assert found(History(sends, polls), Rules(final_reader="final")) == []


def test_what_was_deleted_above_the_start_is_found() -> None:
    sends = [acked("a", 0), acked("b", 1), acked("c", 2)]
    polls = [poll((0, "a"), (1, "b")), final((2, "c"), start_offset=1)]
    findings = found(History(sends, polls), Rules(final_reader="final"))
    assert findings == [Anomaly.VANISHED, Anomaly.RETENTION]


def test_a_fenced_epoch_that_writes_after_the_newer_is_a_zombie() -> None:
    old, new = {"producer_epoch": 0}, {"producer_epoch": 1}
    sends = [acked("a", 0, **old), unknown("z", 5, **old), acked("b", 1, **new)]
    before = poll((0, "a"), (1, "b"))
    assert found(History(sends, [before])) == []
    after = poll((0, "a"), (1, "b"), (2, "z"))
    assert Anomaly.ZOMBIE_WRITE in found(History(sends, [after]))


def test_an_older_epoch_of_another_producer_is_no_zombie() -> None:
    sends = [acked("a", 0, producer_epoch=3), acked("b", 1, producer="q", producer_epoch=0)]
    assert found(History(sends, [poll((0, "a"), (1, "b"))])) == []


def keyed(value: str, offset: int, partition: int = 0, at: int | None = None) -> Send:
    start = offset * 10 if at is None else at
    return Send("p", partition, value, start, start + 5, Outcome.ACKED, offset, "key")


def read_of(partition: int, *records: tuple[int, str]) -> Poll:
    return Poll("c", partition, records, 1000, 1001)


def test_a_key_in_two_partitions_has_no_order() -> None:
    history = History(
        [keyed("a", 0), keyed("b", 0, partition=1, at=30)],
        [read_of(0, (0, "a")), read_of(1, (0, "b"))],
    )
    assert found(history) == [Anomaly.KEY_ORDER]


def test_records_of_a_key_stand_in_the_order_of_sending() -> None:
    in_order = History([keyed("a", 0), keyed("b", 1)], [read_of(0, (0, "a"), (1, "b"))])
    assert found(in_order) == []
    turned = History([keyed("a", 1, at=0), keyed("b", 0, at=1)], [read_of(0, (0, "b"), (1, "a"))])
    report: Report = judge(turned)
    assert report.count(Anomaly.KEY_ORDER) == 1
    assert report.disordered == 2
