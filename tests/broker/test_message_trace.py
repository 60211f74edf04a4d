"""From what shares have done to rows in the trace's topic, in a broker without sockets."""

import pytest

from penstock.broker.audit import message_trace
from penstock.broker.audit.message_trace import MessageTrace
from penstock.controller.topic_config.table import TOPIC_CONFIGS
from penstock.finding.traces import TOPIC, Row, decode_row
from penstock.node.access.audit import start_audit
from penstock.record.read import iter_batches, iter_records
from penstock.runtime.io.randomness import SystemRandomness
from penstock.shares.state import ShareKey
from penstock.shares.updates.tracing import Event
from tests.broker.cluster import Cluster, Node, run_at_once

GROUP = "readers"


def traced(cluster: Cluster) -> Node:
    cluster.create()
    node = cluster.nodes[0]
    start_audit(node.front, run_at_once, SystemRandomness())
    return node


@pytest.fixture
def node() -> Node:
    return traced(Cluster(1, message_trace_percent=100.0))


def trace_of(node: Node) -> MessageTrace:
    assert isinstance(node.broker.message_trace, MessageTrace)
    return node.broker.message_trace


def key_of(node: Node, topic: str = "events") -> ShareKey:
    hosted = node.broker.partitions.by_name[topic.encode()]
    return ShareKey(GROUP, bytes(hosted.topic_id), 0)


def happened(node: Node, *events: Event) -> None:
    trace_of(node).happened(key_of(node), events)
    node.cluster.world.run()


def tick(node: Node) -> None:
    node.broker.expire_waiting()
    node.cluster.world.run()


def records(node: Node) -> list[tuple[bytes, Row]]:
    """Everything in the topic, by a look at its logs: keys and rows."""
    found = []
    topic = node.broker.partitions.by_name.get(TOPIC.encode())
    for hosted in () if topic is None else topic.partitions:
        assert hosted is not None
        end = hosted.member.confirm_position
        chunk = hosted.member.log.read(hosted.log, 0, 1 << 24, end)  # type: ignore[arg-type]
        for _, batch in iter_batches(chunk.data):  # type: ignore[union-attr]
            records = iter_records(batch)
            found += [(one.key or b"", decode_row(one.value or b"")) for one in records]
    return sorted(found, key=lambda one: int(one[0].rpartition(b":")[2]))


def test_an_event_is_a_row_with_the_names_of_its_messages(node: Node) -> None:
    happened(node, Event("delivered", [(3, 5)], "me"), Event("done", [(4, 5)]))
    tick(node)
    (first, delivered), (second, done) = records(node)
    at_ms = node.cluster.world.wall_ms()
    assert delivered == Row(0, at_ms, "delivered", "events", 0, [(3, 5)], GROUP, "me")
    assert done == Row(0, at_ms, "done", "events", 0, [(4, 5)], GROUP, "")
    assert first.split(b" ")[:-1] == [b"events/0/3", b"events/0/4"]
    assert second.startswith(b"events/0/4 0:")
    assert (trace_of(node).written, trace_of(node).dropped) == (2, 0)


def test_rows_are_written_without_waiting_for_a_tick_once_the_topic_is_there(node: Node) -> None:
    happened(node, Event("done", [(0, 1)]))
    tick(node)
    for offset in range(1, 4):
        trace_of(node).happened(key_of(node), [Event("done", [(offset, offset + 1)])])
    node.cluster.world.run()
    assert len(records(node)) == 4, "also what came while the first of them was written"


@pytest.mark.parametrize(
    ("cluster", "topic", "is_traced"),
    [(0.0, "-1", False), (0.0, "100", True), (100.0, "0", False), (100.0, "-1", True)],
    ids=["off", "of this topic alone", "not of this topic", "as all topics"],
)
def test_a_topic_may_say_otherwise_than_the_cluster(
    cluster: float, topic: str, is_traced: bool
) -> None:
    node = traced(Cluster(1, message_trace_percent=cluster))
    node.cluster.create("own", penstock_message_trace_percent=topic)
    assert trace_of(node).wants(key_of(node, "own")) is is_traced
    assert trace_of(node).wants(key_of(node)) is (cluster > 0)
    trace_of(node).happened(key_of(node, "own"), [Event("done", [(0, 1)])])
    node.cluster.world.run()
    tick(node)
    assert [row.topic for _, row in records(node)] == ["own"] * is_traced
    assert (node.broker.partitions.by_name.get(TOPIC.encode()) is not None) is is_traced


def test_a_topic_has_a_share_of_its_own() -> None:
    node = traced(Cluster(1, message_trace_percent=100.0))
    node.cluster.create("own", penstock_message_trace_percent="20.5")
    trace_of(node).happened(key_of(node, "own"), [Event("done", [(0, 200)])])
    node.cluster.world.run()
    tick(node)
    count = sum(end - first for _, row in records(node) for first, end in row.runs)
    assert 10 < count < 90


@pytest.mark.parametrize("text", ["-2", "-0.5", "100.1", "off", "nan", ""])
def test_what_is_no_share_of_messages_is_refused(text: str) -> None:
    parse = TOPIC_CONFIGS["penstock.message.trace.percent"].parse
    assert [parse(one) for one in ("-1", "0", "-0", "0.01", "100")] == [-1, 0, 0, 0.01, 100]
    assert str(parse("-0")) == "0.0"
    with pytest.raises(ValueError, match=r"must be from 0 to 100, or -1|not a number"):
        parse(text)


def test_what_groups_do_with_internal_topics_is_not_traced(node: Node) -> None:
    happened(node, Event("done", [(0, 1)]))
    tick(node)
    trace = trace_of(node)
    assert not trace.wants(key_of(node, TOPIC)), "it would trace itself for ever"
    assert trace.wants(key_of(node))
    assert not trace.wants(ShareKey(GROUP, bytes(16), 0)), "a topic that is gone"


def test_what_waits_has_a_bound(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_trace, "WAITING_MAX", 5)
    node = traced(Cluster(1, message_trace_percent=100.0))
    trace = trace_of(node)
    events = [Event("done", [(offset, offset + 1)]) for offset in range(8)]
    trace.happened(key_of(node), events)
    assert (len(trace), trace.dropped) == (5, 3)
    node.cluster.world.run()
    tick(node)
    assert [row.runs for _, row in records(node)] == [[(offset, offset + 1)] for offset in range(5)]
    assert len(trace) == 0


def test_an_event_has_a_bound_of_messages(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_trace, "OFFSETS_MAX", 150)
    happened(node, Event("done", [(0, 100), (200, 300), (400, 500)]), Event("done", [(0, 1)]))
    tick(node)
    assert [row.runs for _, row in records(node)] == [[(0, 100)], [(200, 250)], [(0, 1)]]
    assert trace_of(node).left_out == 150


def test_a_share_of_all_messages_is_traced_and_the_same_one_of_each_event() -> None:
    node = traced(Cluster(1, message_trace_percent=20.0))
    happened(node, Event("delivered", [(0, 200)], "me"), Event("done", [(0, 200)]))
    tick(node)
    by_event: dict[str, list[int]] = {"delivered": [], "done": []}
    for _, row in records(node):
        by_event[row.event] += [at for first, end in row.runs for at in range(first, end)]
    assert by_event["delivered"] == by_event["done"]
    assert 10 < len(by_event["done"]) < 90


def test_long_names_are_cut(node: Node) -> None:
    key = key_of(node)._replace(group="g" * 300)
    trace_of(node).happened(key, [Event("delivered", [(0, 1)], "m" * 300)])
    node.cluster.world.run()
    tick(node)
    ((_, row),) = records(node)
    assert (len(row.group), len(row.client)) == (255, 255)


def test_what_waits_as_the_process_stops_is_written(node: Node) -> None:
    trace_of(node).happened(key_of(node), [Event("done", [(0, 1)])])
    node.cluster.world.run()
    trace_of(node).end()
    node.cluster.world.run()
    assert len(records(node)) == 1
