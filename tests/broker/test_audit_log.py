"""From requests of a client to rows in the audit's topic, in a broker without sockets."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.audit.fold import LENGTH_MS, Fold
from penstock.audit.row import TEXT_KEPT_MAX, Row, decode_row, others_of
from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.broker.access import Operation, Resource
from penstock.broker.audit import audit_log, row_log
from penstock.broker.audit.audit_log import AuditLog
from penstock.coordinator.unwritten import Unwritten
from penstock.node.access.audit import start_audit
from penstock.protocol.api_keys import ApiKey
from penstock.record.read import iter_batches, iter_records
from penstock.runtime.io.randomness import SystemRandomness
from tests.broker.cluster import (
    Cluster,
    Node,
    Wire,
    fetched,
    frames_of,
    produce_fields,
    run_at_once,
)

ROWS = 40


def audited(node: Node) -> AuditLog:
    start_audit(node.front, run_at_once, SystemRandomness())
    assert isinstance(node.broker.audit, AuditLog)
    return node.broker.audit


@pytest.fixture
def node() -> Node:
    cluster = Cluster(1, audit=True)
    cluster.create()
    return cluster.nodes[0]


class Client:
    principal, host, client_id, software = "User:eve", "10.0.0.7", "spy", ("s", "1")


def pass_fold(node: Node) -> None:
    node.cluster.world.now_ms += LENGTH_MS
    tick(node)


def tick(node: Node, times: int = 3) -> None:
    for _ in range(times):
        node.broker.expire_waiting()
        node.cluster.world.run()


def rows(node: Node) -> list[Row]:
    """Everything in the topic, by a look at its logs."""
    found = []
    topic = node.broker.partitions.by_name.get(AUDIT_TOPIC.encode())
    assert topic is not None
    for hosted in topic.partitions:
        assert hosted is not None
        end = hosted.member.confirm_position
        chunk = hosted.member.log.read(hosted.log, 0, 1 << 24, end)  # type: ignore[arg-type]
        for _, batch in iter_batches(chunk.data):  # type: ignore[union-attr]
            found += [decode_row(record.value or b"") for record in iter_records(batch)]
    return found


def test_what_clients_take_and_give_is_told_by_partition_and_in_all(node: Node) -> None:
    audit = audited(node)
    node.produce(b"one", b"two")
    node.cluster.world.run()
    asked = node.fetch(0)
    node.cluster.world.run()
    assert fetched(asked).records
    node.produce(b"x", topic="missing")
    pass_fold(node)
    told = {(row.key.operation, row.key.topic): row for row in rows(node)}
    produced, consumed = told["produce", "events"].counts, told["fetch", "events"].counts
    for one in (produced, consumed):
        assert (one["requests"], one["records"], one["errors"]) == (1, 2, 0)
    assert produced["bytes_in"] == consumed["bytes_out"] > 0
    whole = told["produce", ""].counts
    assert (whole["requests"], whole["errors"]) == (2, 1), "the topic that nobody knows"
    assert whole["bytes_in"] > produced["bytes_in"]
    assert whole["timed"] == 2
    assert {row.key.who.client_id for row in told.values()} == {"test"}
    assert audit.written == len(told)
    assert not len(audit)


def test_off_is_off() -> None:
    node = Cluster(1).nodes[0]
    start_audit(node.front, run_at_once, SystemRandomness())
    assert node.broker.audit is None


def test_a_denial_is_a_row_at_once_and_more_of_a_fold_are_folded(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "DENIALS_MAX", 1)
    audit = audited(node)
    for _ in range(3):
        node.broker.denials.note(Client(), Operation.WRITE, Resource.TOPIC, "secret")
    tick(node)
    (first,) = rows(node)
    assert (first.key.operation, first.key.topic) == ("denied write topic", "secret")
    assert first.key.who == ("User:eve", "spy", "s", "1", "10.0.0.7")
    assert first.counts["errors"] == 1
    pass_fold(node)
    assert sum(row.counts["errors"] for row in rows(node)) == 3
    assert audit.dropped == 0


def test_a_denial_lies_within_its_row_also_when_its_fold_is_over_and_not_taken_yet(
    node: Node,
) -> None:
    audited(node)
    node.cluster.world.now_ms += 2 * LENGTH_MS
    at_ms = node.broker.clock.wall_ms()
    node.broker.denials.note(Client(), Operation.WRITE, Resource.TOPIC, "secret")
    tick(node)
    (denied,) = [row for row in rows(node) if row.key.topic == "secret"]
    assert denied.began_ms <= at_ms < denied.ended_ms


def test_each_fold_has_denials_that_are_rows_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "DENIALS_MAX", 1)
    audited(node)
    for fold in range(3):
        node.broker.denials.note(Client(), Operation.WRITE, Resource.TOPIC, f"secret-{fold}")
        tick(node)
        assert f"secret-{fold}" in {row.key.topic for row in rows(node)}
        pass_fold(node)


def test_denials_of_one_leave_rows_at_once_for_others(node: Node) -> None:
    class Thief(Client):
        principal = "User:thief"

    audit, before = audited(node), Counter[str]()
    for _ in range(2):
        for number in range(2 * audit_log.DENIALS_MAX):
            node.broker.denials.note(Client(), Operation.READ, Resource.GROUP, f"g{number}")
        node.broker.denials.note(Thief(), Operation.READ, Resource.TOPIC, "secret")
        tick(node)
        at_once = Counter(row.key.who.principal for row in rows(node)) - before
        assert at_once == {"User:thief": 1, "User:eve": audit_log.DENIALS_OF_PRINCIPAL}
        pass_fold(node)
        tick(node)
        before = Counter(row.key.who.principal for row in rows(node))
        assert len(audit) == audit.dropped == 0


def test_what_waits_has_a_bound_and_is_written_in_pieces(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "WAITING_MAX", ROWS + 5)
    monkeypatch.setattr(audit_log, "DENIALS_MAX", 0)
    monkeypatch.setattr(row_log, "ROWS_TOGETHER", ROWS)
    audit = audited(node)
    for number in range(ROWS + 9):
        node.broker.denials.note(Client(), Operation.READ, Resource.TOPIC, f"t{number}")
    node.cluster.world.now_ms += LENGTH_MS
    node.broker.expire_waiting()
    assert (len(audit), audit.dropped) == (ROWS + 5, 4)
    tick(node, times=1)
    assert (len(audit), audit.written) == (5, ROWS)
    tick(node)
    assert (len(audit), audit.written) == (0, ROWS + 5)
    assert len({row.key for row in rows(node)}) == ROWS + 5


def test_rows_wait_while_the_node_leads_no_partition() -> None:
    cluster = Cluster(2, audit=True)
    cluster.create()
    node = cluster.nodes[0]
    audit = audited(node)
    node.broker.denials.note(Client(), Operation.READ, Resource.TOPIC, "t")
    cluster.world.run()
    cluster.lead(1)
    cluster.replicate()
    tick(node)
    assert (audit.written, len(audit)) == (0, 1)
    cluster.lead(0)
    cluster.replicate()
    tick(node, times=1)
    cluster.replicate()
    tick(node, times=1)
    assert (audit.written, len(audit)) == (1, 0)


def test_requests_of_a_run_are_added_to_the_rows_of_their_partitions(node: Node) -> None:
    node.cluster.create("more", partitions=2)
    audited(node)
    asked = [request(b"a", b"b"), request(b"c", topic="more", partition=1), request(b"d")]
    asked += [request(topic="absent"), request(partition=77)]
    assert node.produce_together(*asked).taken == 5
    pass_fold(node)
    told = {row.key[1:]: row.counts for row in rows(node)}
    assert sums(told["produce", "events", 0]) == (2, 3, 0)
    assert sums(told["produce", "more", 1]) == (1, 1, 0)
    assert sums(told["produce", "", -1]) == (5, 0, 2)
    assert told.keys() == {
        ("produce", "events", 0), ("produce", "more", 1), ("produce", "", -1)
    }, "what is invented has no rows"  # fmt: skip


def test_what_is_refused_is_an_error_of_its_partition(node: Node) -> None:
    node.cluster.create("small", max_message_bytes="100")
    audited(node)
    node.produce(b"x" * 1000, topic="small")
    node.produce(b"x", topic="small", acks=7)
    node.produce(b"x", topic="small")
    pass_fold(node)
    told = {row.key[1:]: row.counts for row in rows(node)}
    assert sums(told["produce", "small", 0]) == (1, 1, 2)


def test_a_row_ends_with_its_fold_for_a_connection_that_stays(node: Node) -> None:
    audit = audited(node)
    wire = Wire()
    for number in range(3):
        for _ in range(number + 1):
            send_produce(node, wire, "test")
        node.cluster.world.run()
        pass_fold(node)
        assert len(audit.fold) == 0
    told = sorted(
        (row.began_ms, row.counts["requests"]) for row in rows(node) if row.key.partition == 0
    )
    assert [requests for _, requests in told] == [1, 2, 3]
    assert told[2][0] - told[0][0] == 2 * LENGTH_MS


def test_what_a_client_does_once_it_has_proved_who_it_is_is_in_rows_of_its_own(
    node: Node,
) -> None:
    audited(node)
    wire = Wire()
    send_produce(node, wire, "c")
    wire.principal = wire.state.principal = "User:alice"  # as SASL does (kafka/sasl/session.py)
    send_produce(node, wire, "c")
    pass_fold(node)
    told = [
        (row.key.who.principal, row.counts["requests"])
        for row in rows(node)
        if row.key.operation == "produce" and row.key.partition < 0
    ]
    assert sorted(told) == [("User:ANONYMOUS", 1), ("User:alice", 1)]


def test_a_client_that_invents_ids_fills_one_row_and_what_it_did_is_in_the_sums(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fold.__init__, "__defaults__", (LENGTH_MS, 10))
    audit = audited(node)
    wire = Wire()
    for number in range(50):
        send_produce(node, wire, f"client-{number}-" + "x" * 300)
    assert len(audit.fold) == 9
    assert audit.fold.beyond > 0
    pass_fold(node)
    found = rows(node)
    assert sum(row.counts["requests"] for row in found if row.key.partition < 0) >= 50
    (others,) = [row for row in found if row.key == others_of("User:ANONYMOUS")]
    assert others.counts["requests"] == 92
    assert all(len(row.key.who.client_id) <= TEXT_KEPT_MAX for row in found)


def test_a_connection_keeps_few_rows_of_partitions(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.audited.KEPT_MAX", 2)
    node.cluster.create("wide", partitions=5)
    audited(node)
    asked = node.produce_together(*(request(topic="wide", partition=n % 5) for n in range(10)))
    measure = asked.wire.state.audited[ApiKey.PRODUCE]
    assert sum(map(len, measure.rows.values())) <= 2
    pass_fold(node)
    told = {row.key[1:]: row.counts["requests"] for row in rows(node)}
    assert told == {("produce", "wide", n): 2 for n in range(5)} | {("produce", "", -1): 10}


def test_what_is_permitted_is_told_also_where_everything_is(node: Node) -> None:
    audited(node)
    group = {"key": "readers", "key_type": 0}
    node.ask(ApiKey.FIND_COORDINATOR, 3, group)
    node.ask(ApiKey.FIND_COORDINATOR, 3, group)
    pass_fold(node)
    told = {row.key[1:]: row.counts["requests"] for row in rows(node)}
    assert told["allowed describe group", "readers", -1] == 2


def test_the_fold_ends_with_the_process(node: Node) -> None:
    audit = audited(node)
    node.produce(b"x")
    audit.end()
    tick(node)
    assert len(audit) == 0
    assert {row.key.operation for row in rows(node)} == {"produce"}


def test_who_leads_nothing_does_not_wait_for_the_end_of_its_rows() -> None:
    cluster = Cluster(2, audit=True)
    cluster.create()
    node = cluster.nodes[0]
    audit = audited(node)
    assert not audit.is_stuck
    node.broker.denials.note(Client(), Operation.READ, Resource.TOPIC, "t")
    assert not audit.is_stuck, "the topic is still to be made"
    cluster.world.run()
    cluster.lead(1)
    cluster.replicate()
    assert audit.is_stuck


def test_rows_whose_write_fails_are_written_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = audited(node)
    node.broker.denials.note(Client(), Operation.READ, Resource.TOPIC, "t")
    node.cluster.world.run()
    refusals: list[int] = []

    def refuse(partition: int, records: Any, done: Any) -> None:
        refusals.append(partition)
        done(Unwritten.NOT_HERE)

    with monkeypatch.context() as patched:
        patched.setattr(audit._rows._topic.journal, "append", refuse)
        tick(node)
    assert len(refusals) == 3
    assert (audit.written, len(audit)) == (0, 1)
    tick(node)
    assert (audit.written, len(audit)) == (1, 0)
    assert len(rows(node)) == 1


def request(*values: bytes, topic: str = "events", partition: int = 0) -> dict[str, Any]:
    return produce_fields(topic, values or (b"x",), 1, {}, partition)


def sums(counts: Mapping[str, int]) -> tuple[int, int, int]:
    return counts["requests"], counts["records"], counts["errors"]


def send_produce(node: Node, wire: Wire, client_id: str) -> None:
    (frame,) = frames_of([request()], 11, client_id)
    node._dispatcher.on_frame(wire, memoryview(bytearray(frame))[4:])  # type: ignore[arg-type]
