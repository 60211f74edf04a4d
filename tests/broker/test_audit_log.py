"""From requests of a client to rows in the audit's topic, in a broker without sockets."""

import pytest

from penstock.audit.fold import MINUTE_MS
from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.audit.row import Row, decode_row
from penstock.broker import audit_log
from penstock.broker.access import Operation, Resource
from penstock.broker.audit_log import AuditLog
from penstock.node.access.audit import start_audit
from penstock.record.read import iter_batches, iter_records
from tests.broker.cluster import Cluster, Node, fetched, run_at_once

ROWS = 40


def audited(node: Node) -> AuditLog:
    start_audit(node.front, run_at_once)
    assert isinstance(node.broker.audit, AuditLog)
    return node.broker.audit


@pytest.fixture
def node() -> Node:
    cluster = Cluster(1, audit=True)
    cluster.create()
    return cluster.nodes[0]


class Client:
    principal, host, client_id, software = "User:eve", "10.0.0.7", "spy", ("s", "1")


def pass_minute(node: Node) -> None:
    node.cluster.world.now_ms += MINUTE_MS
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
    pass_minute(node)
    told = {(row.key.operation, row.key.topic): row for row in rows(node)}
    produced, consumed = told["produce", "events"].counts, told["fetch", "events"].counts
    assert produced[:2] == consumed[:2] == (1, 2)
    assert produced[2] == consumed[3] > 0
    assert told["produce", ""].counts[0] == 2
    assert told["produce", ""].counts[2] > produced[2]
    assert {row.key.who.client_id for row in told.values()} == {"test"}
    assert audit.written == len(told)
    assert not len(audit)


def test_off_is_off() -> None:
    node = Cluster(1).nodes[0]
    start_audit(node.front, run_at_once)
    assert node.broker.audit is None


def test_a_denial_is_a_row_at_once_and_more_of_a_minute_are_folded(
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
    assert first.counts[4] == 1
    pass_minute(node)
    assert sum(row.counts[4] for row in rows(node)) == 3
    assert audit.dropped == 0


def test_what_waits_has_a_bound_and_is_written_in_pieces(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "WAITING_MAX", ROWS + 5)
    monkeypatch.setattr(audit_log, "DENIALS_MAX", 0)
    monkeypatch.setattr(audit_log, "ROWS_TOGETHER", ROWS)
    audit = audited(node)
    for number in range(ROWS + 9):
        node.broker.denials.note(Client(), Operation.READ, Resource.TOPIC, f"t{number}")
    node.cluster.world.now_ms += MINUTE_MS
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
