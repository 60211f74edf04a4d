"""Exactly once: whatever a driver or task dies between, each row is committed once.

The writers are those that Spark pickles; here the test calls them in the order of Spark's driver,
so that each step can be the last one. Real kills are in test_sink_kills.py.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.client.ending import end_transactions
from penstock.client.produce import Producer
from penstock.client.transactions import Transactions
from penstock.client.versions import CLIENT_VERSIONS
from penstock.protocol.api_keys import ApiKey
from penstock.spark.errors import (
    DecisionTaken,
    JobAborted,
    OptionError,
    OutcomeUnknown,
    ReplayDiffers,
    TransactionsAborted,
)
from penstock.spark.exactly_once import ending
from penstock.spark.exactly_once.checkpoint import open_checkpoint
from penstock.spark.exactly_once.decisions import Decision, Decisions
from penstock.spark.exactly_once.driver import Ender
from tests.spark.stock import read_committed
from tests.spark.tasks import Query, run_task, run_tasks
from tests.spark.topics import Topics

ROWS = ([b"a0", b"a1"], [b"b0"], [b"c0"])
ONCE: Counter[bytes | None] = Counter({b"a0": 1, b"a1": 1, b"b0": 1, b"c0": 1})


class Died(Exception):
    """The driver is not there any more."""


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.make()


@pytest.fixture
def query(topics: Topics, topic: str, tmp_path: Path) -> Query:
    return Query(tmp_path / "checkpoint", topics.bootstrap, topic)


@pytest.fixture
def seen(topics: Topics, topic: str) -> Callable[[], Counter[bytes | None]]:
    return lambda: read_committed(topics.bootstrap, topic)


@pytest.fixture
def open_ids(topics: Topics, query: Query) -> Callable[[], list[str]]:
    """The query's transactional ids that have a transaction open."""

    def found() -> list[str]:
        listed = Transactions(topics.cluster).list(states=("Ongoing",))
        names = [one.transactional_id for one in listed]
        return [name for name in names if name.startswith(query.prefix)]

    return found


def _last(query: Query) -> Decision:
    _, place = open_checkpoint(str(query.checkpoint))
    last = Decisions(place).last()
    assert last is not None
    return last


def _die_when_ending(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The driver dies after the first `after` of its transactions were committed."""

    def dying(cluster: Any, transactions: Any, *, is_commit: bool) -> Any:
        if is_commit:
            end_transactions(cluster, transactions[:after], is_commit=True)
            raise Died
        return end_transactions(cluster, transactions, is_commit=False)

    monkeypatch.setattr(ending, "end_transactions", dying)


def test_rows_count_when_the_driver_has_committed_them(query: Query, seen: Any) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    assert seen() == Counter()
    query.writer().commit(messages, 0)
    assert seen() == ONCE
    assert _last(query).is_whole


def test_a_batch_that_is_run_again_after_its_commit_adds_nothing(
    query: Query, seen: Any, open_ids: Any
) -> None:
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    assert seen() == ONCE
    assert open_ids() == []


def test_of_two_copies_of_a_task_the_one_counts_whose_message_came(
    query: Query, seen: Any, open_ids: Any
) -> None:
    writer = query.writer()
    messages = run_tasks(writer, *ROWS)
    messages[1] = run_task(writer, 1, ROWS[1], attempt=1)
    query.writer().commit(messages, 0)
    assert seen() == ONCE
    assert open_ids() == []


def test_a_driver_that_dies_before_it_decides_has_written_nothing(query: Query, seen: Any) -> None:
    run_tasks(query.writer(), *ROWS)
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    assert seen() == ONCE


@pytest.mark.parametrize("committed", [0, 1, 3])
def test_a_driver_that_dies_after_it_has_decided_has_written_everything(
    query: Query, seen: Any, open_ids: Any, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    writer = query.writer()
    with monkeypatch.context() as patch:
        _die_when_ending(patch, committed)
        with pytest.raises(Died):
            writer.commit(messages, 0)
    again = query.writer()  # before any task runs
    assert seen() == ONCE
    query.writer().commit(run_tasks(again, *ROWS), 0)
    assert seen() == ONCE
    assert open_ids() == []


def test_an_abort_after_the_decision_aborts_nothing_of_it(
    query: Query, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    with monkeypatch.context() as patch:
        _die_when_ending(patch, 1)
        with pytest.raises(Died):
            query.writer().commit(messages, 0)
        assert not _last(query).is_ended
        patch.setattr("penstock.spark.exactly_once.driver.StreamCommit.finish", lambda _: None)
        query.writer().abort(messages, 0)
    query.writer()
    assert seen() == ONCE


def test_an_abort_without_a_decision_leaves_nothing_open(
    query: Query, seen: Any, open_ids: Any
) -> None:
    writer = query.writer()
    messages = run_tasks(writer, *ROWS)
    run_task(writer, 1, ROWS[1], attempt=1)  # its message never came
    query.writer().abort([messages[0], None, messages[2]], 0)
    assert open_ids() == []
    assert seen() == Counter()


def test_a_task_that_runs_on_after_its_job_was_aborted_leaves_nothing_open(
    query: Query, seen: Any, open_ids: Any
) -> None:
    planned, batch = query.writer(), query.batch_writer()
    query.writer().abort([None], 0)
    batch.abort([None])
    for writer in (planned, batch):
        with pytest.raises(JobAborted):
            run_task(writer, 0, [b"late"])
    assert open_ids() == []
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    assert seen() == ONCE


def test_a_batch_with_a_transaction_that_timed_out_is_not_begun_to_be_committed(
    query: Query, topics: Topics, seen: Any, open_ids: Any
) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    Transactions(topics.cluster).abort(f"{query.prefix}1-0")
    with pytest.raises(TransactionsAborted, match=r"partitions 1 .* nothing of the batch"):
        query.writer().commit(messages, 0)
    assert (seen(), open_ids()) == (Counter(), [])
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    assert seen() == ONCE


def _decided_with_one_timed_out(
    query: Query, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver dies between its commits, and partition 1 times out before the next one."""
    messages = run_tasks(query.writer(), *ROWS)
    with monkeypatch.context() as patch:
        _die_when_ending(patch, 1)
        with pytest.raises(Died):
            query.writer().commit(messages, 0)
    late = _last(query).transactions[1]
    end_transactions(topics.cluster, [late], is_commit=False)


def test_rows_that_timed_out_after_the_decision_come_from_the_next_run_alone(
    query: Query, topics: Topics, seen: Any, open_ids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _decided_with_one_timed_out(query, topics, monkeypatch)
    again = query.writer()
    assert seen() == ONCE - Counter([b"b0"])
    query.writer().commit(run_tasks(again, *ROWS), 0)
    assert seen() == ONCE
    assert open_ids() == []
    assert (_last(query).round, _last(query).is_whole) == (2, True)


@pytest.mark.parametrize("rows", [ROWS[:2], (ROWS[0], [b"other"], ROWS[2])])
def test_another_run_with_other_rows_is_refused_where_rows_are_missing(
    query: Query, topics: Topics, seen: Any, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    _decided_with_one_timed_out(query, topics, monkeypatch)
    with pytest.raises(ReplayDiffers, match="committed but for its partitions 1"):
        query.writer().commit(run_tasks(query.writer(), *rows), 0)
    assert seen() == ONCE - Counter([b"b0"])
    # the way out: at least once, after which exactly once goes on
    loose = {"delivery": "at-least-once"}
    query.writer(**loose).commit(run_tasks(query.writer(**loose), *ROWS), 0)
    query.writer().commit(run_tasks(query.writer(), [b"next"]), 1)
    assert seen() == ONCE + ONCE - Counter([b"b0"]) + Counter([b"next"])


@pytest.mark.parametrize("is_commit", [True, False])
def test_how_a_transaction_ended_is_read_in_the_log_if_its_id_was_used_again(
    query: Query, topics: Topics, seen: Any, monkeypatch: pytest.MonkeyPatch, *, is_commit: bool
) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    with monkeypatch.context() as patch:
        _die_when_ending(patch, 0)
        with pytest.raises(Died):
            query.writer().commit(messages, 0)
    first = _last(query).transactions[0]
    end_transactions(topics.cluster, [first], is_commit=is_commit)
    Transactions(topics.cluster).abort(first.transactional_id)
    query.writer()
    assert _last(query).aborted == frozenset(() if is_commit else (0,))
    query.writer().commit(run_tasks(query.writer(), *ROWS), 0)
    assert seen() == ONCE


def test_an_end_that_nobody_knows_is_said(
    query: Query, topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = run_tasks(query.writer(), [b"a0"])
    with monkeypatch.context() as patch:
        _die_when_ending(patch, 1)
        with pytest.raises(Died):
            query.writer().commit(messages, 0)
    Transactions(topics.cluster).abort(f"{query.prefix}0-0")
    topics.admin.delete_records(topic, {0: -1})
    with pytest.raises(OutcomeUnknown, match="can not be found out"):
        query.writer()


def test_two_drivers_do_not_decide_the_same_batch(query: Query, seen: Any) -> None:
    messages = run_tasks(query.writer(), *ROWS)
    _, place = open_checkpoint(str(query.checkpoint))
    decisions = Decisions(place)
    decision = Decision(batch=0, round=1, task_count=1, written=())
    decisions.record(decision)
    with pytest.raises(DecisionTaken, match="another driver"):
        decisions.record(decision)
    query.writer().commit(messages, 0)
    assert seen() == Counter()  # the other one has decided


def test_batches_without_rows_and_tasks_without_rows_are_batches(query: Query, seen: Any) -> None:
    query.writer().commit(run_tasks(query.writer(), [], []), 0)
    query.writer().commit(run_tasks(query.writer(), [], [b"x"]), 1)
    query.writer().commit(run_tasks(query.writer()), 2)
    assert seen() == Counter([b"x"])
    kept = sorted(path.name for path in (query.checkpoint / "penstock").iterdir())
    assert len(kept) == 4, kept  # of the last two batches


def test_a_batch_write_counts_whole_or_not_at_all(query: Query, seen: Any) -> None:
    writer = query.batch_writer()
    messages = run_tasks(writer, *ROWS)
    writer.abort(messages)
    assert seen() == Counter()
    writer = query.batch_writer()
    messages = run_tasks(writer, *ROWS)
    assert seen() == Counter()
    writer.commit(messages)
    assert seen() == ONCE


def test_a_task_that_fails_leaves_no_transaction_open(
    query: Query, open_ids: Any, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flushed_and_failing(producer: Producer) -> None:
        flush(producer)
        assert len(open_ids()) == 1
        raise Died

    flush = Producer.flush
    monkeypatch.setattr(Producer, "flush", flushed_and_failing)
    with pytest.raises(Died):
        run_task(query.writer(), 0, [b"x"])
    assert (open_ids(), seen()) == ([], Counter())


def test_a_driver_that_is_down_for_longer_than_the_time_out_loses_nothing(
    query: Query, seen: Any, open_ids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = run_tasks(query.writer(transactionTimeout="1s"), *ROWS)
    with monkeypatch.context() as patch:
        _die_when_ending(patch, 0)
        patch.setattr(Ender, "check_open", lambda *_: [])  # however slow this machine is
        with pytest.raises(Died):
            query.writer().commit(messages, 0)
    assert wait_until(lambda: not open_ids(), 60)
    again = query.writer()
    assert _last(query).aborted == frozenset({0, 1, 2})
    query.writer().commit(run_tasks(again, *ROWS), 0)
    assert seen() == ONCE


def test_a_time_out_that_brokers_do_not_allow_is_refused(query: Query) -> None:
    with pytest.raises(OptionError, match="brokers do not allow 3600000 ms"):
        run_task(query.writer(transactionTimeout="1h"), 0, [b"x"])


def test_brokers_without_these_transactions_are_told_from_others(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = query.writer()
    monkeypatch.setattr("penstock.client.delivery.TRANSACTIONAL_PRODUCE", (99, 99))
    with pytest.raises(OptionError, match="older brokers take delivery=at-least-once"):
        run_task(writer, 0, [b"x"])
    monkeypatch.setitem(CLIENT_VERSIONS, ApiKey.DESCRIBE_TRANSACTIONS, (99, 99))
    with pytest.raises(OptionError, match="older brokers take delivery=at-least-once"):
        query.writer()
