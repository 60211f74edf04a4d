"""Share groups with the stock consumer of librdkafka, against Penstock and against Kafka itself.

What holds for Kafka is what is asked of Penstock: `make compat` runs all of it against both.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Thread

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient

from harness.share_groups import configure_group
from harness.waiting import UNTIL_SECONDS, wait_until
from reliability.clients.share_member import ShareReader
from simulator.clients.shares.member import Habits
from simulator.history.events import Rules
from simulator.history.shares import Kind, ShareNotes, judge_shares, left_over
from tests.compat.conftest import SHARE_PARTITIONS, create_shared

pytestmark = pytest.mark.process
DELIVERIES_MAX = 5
ENOUGH = 200


def write(at: str, topic: str, *values: str, producer: Producer | None = None) -> None:
    producer = producer or Producer({"bootstrap.servers": at})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % SHARE_PARTITIONS)
    assert producer.flush(UNTIL_SECONDS) == 0


class Member:
    """A stock consumer in this process, in explicit mode."""

    def __init__(self, at: str, group: str, *topics: str, mode: str = "explicit") -> None:
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": at,
                "group.id": group,
                "share.acknowledgement.mode": mode,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([*(topics or (group,))])
        self.counts: Counter[str] = Counter()
        """How often each value was delivered."""

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def poll(self) -> list[Message]:
        """Return what a poll gives, perhaps nothing."""
        found = [one for one in self.consumer.poll(0.5) if one.error() is None]
        self.counts.update(text(one) for one in found)
        return found

    def settle(self, found: list[Message], kind: AcknowledgeType) -> None:
        for one in found:
            self.consumer.acknowledge(one, kind)
        for place, error in self.consumer.commit_sync(UNTIL_SECONDS).items():
            assert error is None, (place, error)

    def accept_until(self, *wanted: str) -> None:
        """Accept all that comes until these values are there."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while not set(wanted) <= set(self.counts):
            assert time.monotonic() < deadline, self.counts
            found = self.poll()
            if found:
                self.settle(found, AcknowledgeType.ACCEPT)

    def until_delivered(self, kind: AcknowledgeType) -> list[Message]:
        """Return what comes next, settled so."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while not (found := self.poll()):
            assert time.monotonic() < deadline
        self.settle(found, kind)
        return found


def text(one: Message) -> str:
    return (one.value() or b"").decode()


@dataclass(slots=True)
class Process:
    """A stock consumer in a process of its own, and what it says."""

    process: subprocess.Popen[str]
    accepted: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    listener: Thread = field(default_factory=Thread)

    @classmethod
    def start(cls, at: str, group: str, *options: str) -> "Process":
        command = [sys.executable, "-m", "tests.compat.share_member", at, group, group, *options]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        one = cls(process)
        one.listener = Thread(target=one.listen, daemon=True)
        one.listener.start()
        return one

    def listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                event = json.loads(line)
                self.held += event.get("holds", [])
                self.accepted += event.get("accepted", [])

    def end(self) -> None:
        """Let it close its consumer and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(UNTIL_SECONDS)

    def kill(self) -> None:
        """End it with -9, also if it has ended."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        assert self.process.stdin is not None
        self.process.stdin.close()


def test_others_drain_what_a_member_holds_that_stands_still_or_is_killed(
    at: str, shared: str
) -> None:
    values = [str(number) for number in range(ENOUGH)]
    write(at, shared, *values)
    still = Process.start(at, shared, "--holds")
    killed = Process.start(at, shared, "--holds")
    others: list[Process] = []
    try:
        assert wait_until(lambda: still.held, UNTIL_SECONDS)
        still.process.send_signal(signal.SIGSTOP)
        write(at, shared, *[f"more-{value}" for value in values])
        assert wait_until(lambda: killed.held, UNTIL_SECONDS)
        killed.kill()
        wanted = Counter([*values, *[f"more-{value}" for value in values]])
        others += [Process.start(at, shared) for _ in range(2)]

        def accepted() -> Counter[str]:
            return Counter(others[0].accepted + others[1].accepted)

        assert wait_until(lambda: accepted() >= wanted, UNTIL_SECONDS), wanted - accepted()
        still.process.send_signal(signal.SIGCONT)
        still.end()
        write(at, shared, "last", "last")
        wanted["last"] += 2
        assert wait_until(lambda: accepted() >= wanted, UNTIL_SECONDS), wanted - accepted()
        assert accepted() == wanted, "each record is accepted once, whatever the late one says"
    finally:
        for one in (still, killed, *others):
            one.kill()


def test_released_records_come_again_until_they_are_given_up(at: str, shared: str) -> None:
    write(at, shared, "unlucky")
    with Member(at, shared) as member:
        for delivery in range(1, DELIVERIES_MAX + 1):
            (one,) = member.until_delivered(AcknowledgeType.RELEASE)
            assert (text(one), one.delivery_count()) == ("unlucky", delivery)
        write(at, shared, "last")
        member.accept_until("last")
        assert member.counts["unlucky"] == DELIVERIES_MAX


def test_rejected_and_accepted_records_do_not_come_again(at: str, shared: str) -> None:
    write(at, shared, "rejected")
    with Member(at, shared) as member:
        member.until_delivered(AcknowledgeType.REJECT)
        write(at, shared, "accepted")
        member.accept_until("accepted")
    write(at, shared, "last")
    with Member(at, shared) as other:
        other.accept_until("last")
        assert other.counts == {"last": 1}


def test_a_member_that_leaves_gives_back_what_it_holds(at: str, shared: str) -> None:
    write(at, shared, "held")
    with Member(at, shared) as member:
        deadline = time.monotonic() + UNTIL_SECONDS
        while not member.poll():
            assert time.monotonic() < deadline
    with Member(at, shared) as other:
        (one,) = other.until_delivered(AcknowledgeType.ACCEPT)
        assert (text(one), one.delivery_count()) == ("held", 2)


def test_in_implicit_mode_the_next_poll_or_commit_accepts(at: str, shared: str) -> None:
    values = [str(number) for number in range(ENOUGH)]
    write(at, shared, *values)
    with Member(at, shared, mode="implicit") as member:
        deadline = time.monotonic() + UNTIL_SECONDS
        while len(member.counts) < ENOUGH:
            assert time.monotonic() < deadline
            member.poll()
        told = member.consumer.commit_sync(UNTIL_SECONDS)
        assert set(told.values()) == {None}, told
    write(at, shared, "last")
    with Member(at, shared) as other:
        other.accept_until("last")
        assert other.counts == {"last": 1}
    assert set(member.counts.values()) == {1}


def test_records_of_aborted_transactions_are_never_delivered_to_a_committed_group(
    at: str, shared: str
) -> None:
    configure_group(at, shared, share_isolation_level="read_committed")
    producer = Producer({"bootstrap.servers": at, "transactional.id": shared})
    producer.init_transactions(UNTIL_SECONDS)
    wanted = Counter({"end": 1})
    for number in range(20):
        producer.begin_transaction()
        values = [f"{number}-{one}" for one in range(6)]
        write(at, shared, *values, producer=producer)
        if number % 3:
            producer.abort_transaction(UNTIL_SECONDS)
        else:
            producer.commit_transaction(UNTIL_SECONDS)
            wanted.update(values)
    producer.begin_transaction()
    write(at, shared, "end", producer=producer)
    with Member(at, shared) as member:
        member.accept_until(*(set(wanted) - {"end"}))
        assert "end" not in member.counts, "its transaction is open"
        producer.commit_transaction(UNTIL_SECONDS)
        member.accept_until("end")
        assert member.counts == wanted


def test_a_group_reads_a_topic_anew_that_was_deleted_and_created_again(
    at: str, shared: str
) -> None:
    admin = AdminClient({"bootstrap.servers": at})
    write(at, shared, "old", "older")
    with Member(at, shared) as member:
        member.accept_until("old", "older")
        admin.delete_topics([shared])[shared].result(UNTIL_SECONDS)
    create_shared(at, shared)
    write(at, shared, "new", "newer")
    with Member(at, shared) as member:
        member.accept_until("new", "newer")
        assert member.counts == {"new": 1, "newer": 1}


def test_members_that_release_reject_and_renew_settle_everything_once(at: str, shared: str) -> None:
    """By requests that stock clients do not send: renewals, words in requests of their own."""
    written: dict[tuple[int, int], str] = {}
    producer = Producer({"bootstrap.servers": at})
    for number in range(ENOUGH * 5):
        producer.produce(
            shared,
            str(number).encode(),
            partition=number % SHARE_PARTITIONS,
            on_delivery=lambda _, one: written.update(
                {(one.partition() or 0, one.offset() or 0): text(one)}
            ),
        )
    assert producer.flush(UNTIL_SECONDS) == 0
    notes = ShareNotes()
    habits = Habits(released=0.2, rejected=0.1, renewed=0.2, forgotten=0.0)
    readers = [ShareReader(at, shared, shared, one, notes, habits) for one in range(3)]
    for reader in readers:
        reader.start()
    is_over = wait_until(lambda: not left_over(notes, written, DELIVERIES_MAX), UNTIL_SECONDS)
    for reader in readers:
        reader.stop()
    assert is_over, (left_over(notes, written, DELIVERIES_MAX), [one.last_error for one in readers])
    assert [text for reader in readers for text in reader.problems] == []
    assert judge_shares(notes, written, Rules()) == []
    assert all(one.is_taken for one in notes.settled), "nobody lost what it held"
    assert {Kind.ACCEPT, Kind.RELEASE, Kind.REJECT} <= {one.kind for one in notes.settled}
