"""The checker finds every planted anomaly, and nothing in a clean history."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.history import Anomaly, Outcome, Poll, Report, Send, check


def acked(value: str, offset: int, *, at: int | None = None, producer: str = "p") -> Send:
    start = offset * 10 if at is None else at
    return Send(producer, 0, value, start, start + 5, Outcome.ACKED, offset)


def unknown(value: str, at: int) -> Send:
    return Send("p", 0, value, at, None, Outcome.UNKNOWN, None)


def poll(*records: tuple[int, str], at: int = 1000, fresh: bool = False) -> Poll:
    return Poll("c", 0, records, at, at + 1, fresh)


def found(report: Report) -> set[Anomaly]:
    return {finding.anomaly for finding in report.findings}


def test_a_clean_history_has_no_findings() -> None:
    report = check([acked("a", 0), acked("b", 1)], [poll((0, "a"), (1, "b"))])
    assert report.is_clean()
    assert (report.sent, report.acked, report.read) == (2, 2, 2)


def test_an_unknown_send_may_be_there_or_not() -> None:
    there = check([acked("a", 0), unknown("b", 50)], [poll((0, "a"), (1, "b"))])
    absent = check([acked("a", 0), unknown("b", 50)], [poll((0, "a"))])
    assert there.is_clean()
    assert absent.is_clean()


def test_two_values_at_one_offset_are_inconsistent() -> None:
    report = check([acked("a", 0), acked("b", 0, at=3)], [poll((0, "a"))])
    assert Anomaly.INCONSISTENT_OFFSETS in found(report)


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    report = check([acked("a", 0)], [poll((0, "a"), (1, "a"))])
    assert found(report) == {Anomaly.DUPLICATE}
    assert report.doubled == 1


def test_an_acknowledged_record_that_readers_passed_is_lost() -> None:
    report = check([acked("a", 0), acked("b", 1)], [poll((1, "b"))])
    assert found(report) == {Anomaly.LOST_WRITE}
    assert report.lost == 1


def test_an_acknowledged_record_beyond_all_reads_is_unseen() -> None:
    report = check([acked("a", 0), acked("b", 1)], [poll((0, "a"))])
    assert found(report) == {Anomaly.UNSEEN}
    assert report.lost == 1


def test_reading_a_failed_send_is_an_aborted_read() -> None:
    failed = Send("p", 0, "a", 0, 5, Outcome.FAILED, None)
    assert found(check([failed], [poll((0, "a"))])) == {Anomaly.ABORTED_READ}


def test_reading_what_nobody_sent_is_a_phantom() -> None:
    assert found(check([], [poll((0, "a"))])) == {Anomaly.PHANTOM}


def test_a_producers_later_record_before_its_earlier_is_out_of_order() -> None:
    sends = [acked("a", 1, at=0), acked("b", 0, at=1)]
    report = check(sends, [poll((0, "b"), (1, "a"))])
    assert found(report) == {Anomaly.NONMONOTONIC_SEND}


def test_order_is_checked_for_records_that_were_never_acknowledged() -> None:
    sends = [unknown("a", 0), acked("b", 0, at=1)]
    report = check(sends, [poll((0, "b"), (1, "a"))])
    assert found(report) == {Anomaly.NONMONOTONIC_SEND}
    assert report.disordered == 1


def test_acknowledged_before_another_was_sent_must_stand_before_it() -> None:
    sends = [acked("a", 1, at=0, producer="p"), acked("b", 0, at=100, producer="q")]
    assert found(check(sends, [poll((0, "b"), (1, "a"))])) == {Anomaly.REALTIME_ORDER}


def test_a_consumer_that_repeats_goes_back() -> None:
    polls = [poll((0, "a"), (1, "b")), poll((1, "b"), at=2000)]
    report = check([acked("a", 0), acked("b", 1)], polls)
    assert found(report) == {Anomaly.NONMONOTONIC_POLL}


def test_a_consumer_whose_next_poll_jumps_over_a_known_record_skips() -> None:
    polls = [poll((0, "a")), poll((2, "c"), at=1500), poll((1, "b"), at=2000, fresh=True)]
    report = check([acked("a", 0), acked("b", 1), acked("c", 2)], polls)
    assert found(report) == {Anomaly.POLL_SKIP}


def test_a_jump_inside_one_poll_has_its_own_name() -> None:
    polls = [poll((0, "a"), (2, "c")), poll((1, "b"), at=2000, fresh=True)]
    report = check([acked("a", 0), acked("b", 1), acked("c", 2)], polls)
    assert found(report) == {Anomaly.INT_POLL_SKIP}
    assert report.disordered == 1


def test_going_back_inside_one_poll_has_its_own_name() -> None:
    report = check([acked("a", 0), acked("b", 1)], [poll((0, "a"), (1, "b"), (1, "b"))])
    assert found(report) == {Anomaly.INT_NONMONOTONIC_POLL}
    assert report.disordered == 1


def test_offsets_that_hold_nothing_are_not_skipped() -> None:
    report = check([acked("a", 0), acked("b", 7)], [poll((0, "a"), (7, "b"))])
    assert report.is_clean()


def test_a_fresh_consumer_may_go_back() -> None:
    polls = [poll((0, "a"), (1, "b")), poll((0, "a"), (1, "b"), at=2000, fresh=True)]
    assert check([acked("a", 0), acked("b", 1)], polls).is_clean()


def test_allowed_anomalies_leave_a_report_clean() -> None:
    report = check([acked("a", 0)], [poll((0, "a"), (1, "a"))])
    assert report.is_clean({Anomaly.DUPLICATE})
    assert not report.is_clean({Anomaly.UNSEEN})


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 9))
def test_any_faultless_run_is_clean(partitions: list[int], chunk: int) -> None:
    ends: dict[int, int] = {}
    sends = []
    for number, partition in enumerate(partitions):
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        sends.append(Send("p", partition, number, number, number + 3, Outcome.ACKED, offset))
    polls = [
        Poll("c", partition, [(s.offset or 0, s.value) for s in part], 1000 + at, 1001 + at)
        for partition in ends
        for at, part in _chunks([s for s in sends if s.partition == partition], chunk)
    ]
    assert check(sends, polls).is_clean()


@given(st.integers(2, 40), st.data())
def test_any_missing_acknowledged_record_is_found(count: int, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, count - 1))
    sends = [acked(str(offset), offset) for offset in range(count)]
    report = check(sends, [poll(*[(o, str(o)) for o in range(count) if o != gone])])
    assert report.lost == 1


def _chunks(sends: list[Send], size: int) -> list[tuple[int, list[Send]]]:
    return [(at, sends[at : at + size]) for at in range(0, len(sends), size)]


def final(*records: tuple[int, str]) -> Poll:
    return Poll("final", 0, records, 5000, 5001)


def test_what_was_read_and_is_not_there_in_the_end_has_vanished() -> None:
    sends = [acked("a", 0), unknown("b", 50)]
    polls = [poll((0, "a"), (1, "b")), final((0, "a"))]
    report = check(sends, polls, final_reader="final")
    assert found(report) == {Anomaly.VANISHED}
    assert check(sends, polls).is_clean()


def test_a_broker_that_hides_what_was_acknowledged_before_is_stale() -> None:
    sends = [acked("a", 0), acked("b", 1)]
    shown = poll((0, "a"), at=500)._replace(end_offset=1)
    report = check(sends, [shown, final((0, "a"), (1, "b"))])
    assert found(report) == {Anomaly.STALE_READ}


def test_an_answer_may_be_as_old_as_was_allowed() -> None:
    sends = [acked("a", 0), acked("b", 1)]
    shown = poll((0, "a"), at=500)._replace(end_offset=1)
    polls = [shown, final((0, "a"), (1, "b"))]
    assert check(sends, polls, stale_ns_max=500).is_clean()
    assert not check(sends, polls, stale_ns_max=480).is_clean()


def test_what_is_acknowledged_after_a_read_began_may_be_missing_in_it() -> None:
    sends = [acked("a", 0), acked("b", 1, at=600)]
    shown = poll((0, "a"), at=500)._replace(end_offset=1)
    assert check(sends, [shown, final((0, "a"), (1, "b"))]).is_clean()
