"""Messages that wait for a time of their own are taken back before it, or delivered: never both."""

from collections.abc import Mapping

import pytest

from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.controller.commands.topic_names import RECALL_TOPIC
from penstock.record.build import Record
from penstock.remoting.recall import led, recalls, state
from penstock.remoting.recall.errors import BadHandle
from penstock.remoting.recall.handle import Handle, handle_text, read_handle
from penstock.remoting.recall.record import Recalled, Through, event_of, record_of
from penstock.remoting.recall.state import RecallState
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.replication.errors import NotMaster
from tests.broker.cluster import Cluster
from tests.remoting.served import sent
from tests.remoting.world import SET, Remoting, look, remotings, settle

SECOND = 1_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(2)
    cluster.create("events", partitions=2)
    return cluster


def ask(cluster: Cluster, remote: Remoting, code: int, fields: Mapping[str, object]) -> Command:
    """Send a request; return its answer."""
    asked = remote.send(code, fields, b"body" if code == RequestCode.SEND_MESSAGE_V2 else b"")
    cluster.world.run()
    cluster.replicate()
    answer = remote.answer(asked)
    assert answer is not None
    return answer


def late(cluster: Cluster, remote: Remoting, ms: int, name: str = "ID") -> str:
    """Send a message that is due so much later; return its handle."""
    properties = {"UNIQ_KEY": name, "TIMER_DELAY_MS": str(ms)}
    fields = sent("events", properties, n=SET)
    answer = ask(cluster, remote, RequestCode.SEND_MESSAGE_V2, fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.fields.get("recallHandle", "")


def recall(cluster: Cluster, remote: Remoting, handle: str, topic: str = "events") -> Command:
    fields = {"producerGroup": "p", "topic": topic, "recallHandle": handle, "bname": SET}
    return ask(cluster, remote, RequestCode.RECALL_MESSAGE, fields)


def pass_time(cluster: Cluster, ms: int) -> None:
    """Let time pass, with a look each 100 ms."""
    for _ in range(ms // 100):
        cluster.world.advance(100)
        look(cluster)
        cluster.replicate()


def count(remote: Remoting) -> int:
    return len(remote.pull("events"))


def waiting(remote: Remoting) -> int:
    return remote.front.delivery.waiting()


class Behind:
    """The clock of a node that is behind the others'."""

    def __init__(self, cluster: Cluster, ms: int) -> None:
        self._world, self._ms = cluster.world, ms

    def wall_ms(self) -> int:
        return self._world.wall_ms() - self._ms

    def monotonic_ms(self) -> int:
        return self._world.monotonic_ms()

    def monotonic_us(self) -> int:
        return self._world.monotonic_us()


def test_a_message_that_is_recalled_is_never_delivered_and_leaves_the_levels(
    cluster: Cluster,
) -> None:
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 20 * SECOND)
    other = late(cluster, remote, 20 * SECOND, "ANOTHER")
    pass_time(cluster, 12 * SECOND)  # it has gone to another level
    answer = recall(cluster, remote, handle)
    assert (answer.code, answer.fields) == (ResponseCode.SUCCESS, {"msgId": "ID"})
    pass_time(cluster, 10 * SECOND)
    settle(cluster)
    assert (count(remote), waiting(remote)) == (1, 0)
    assert handle != other
    kept = remote.front.keeping
    assert (kept.recalls.recalled, kept.recalls.dropped, kept.delivery.dropped) == (1, 1, 0)


def test_what_is_delivered_is_not_recalled_any_more(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 2 * SECOND)
    pass_time(cluster, 3_500)
    assert count(remote) == 1
    answer = recall(cluster, remote, handle)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "timestamp invalid" in (answer.remark or "")


def test_a_recall_is_confirmed_before_it_is_answered_and_may_be_repeated(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 20 * SECOND)
    fields = {"producerGroup": "p", "topic": "events", "recallHandle": handle}
    asked = remote.send(RequestCode.RECALL_MESSAGE, fields)
    cluster.world.run()
    assert remote.answer(asked) is None, "the other member does not have it yet"
    cluster.replicate()
    assert remote.answer(asked) is not None
    assert recall(cluster, remote, handle).code == ResponseCode.SUCCESS
    assert remote.front.keeping.recalls.waiting() == 1


def test_the_next_master_knows_what_is_recalled(cluster: Cluster) -> None:
    remote, other = remotings(cluster)
    handles = [late(cluster, remote, 40 * SECOND, f"{n}") for n in range(3)]
    assert recall(cluster, remote, handles[1]).code == ResponseCode.SUCCESS
    pass_time(cluster, 15 * SECOND)
    cluster.lead(1)
    assert recall(cluster, remote, handles[2]).code == ResponseCode.SERVICE_NOT_AVAILABLE
    pass_time(cluster, 500)
    assert recall(cluster, other, handles[2]).code == ResponseCode.SUCCESS
    pass_time(cluster, 27 * SECOND)
    settle(cluster)
    (one,) = other.pull("events")
    assert b"UNIQ_KEY\x010" in one.properties.encode()


def test_what_a_master_has_delivered_no_later_one_recalls_whose_clock_is_behind(
    cluster: Cluster,
) -> None:
    """The time up to which deliveries are decided is in the log, and not a clock's."""
    remote, other = remotings(cluster)
    handle = late(cluster, remote, 5 * SECOND)
    later = late(cluster, remote, 60 * SECOND, "LATER")
    pass_time(cluster, 6 * SECOND)
    assert count(remote) == 1
    cluster.lead(1)
    other.node.broker.clock = Behind(cluster, 4 * SECOND)
    pass_time(cluster, 500)
    assert recall(cluster, other, handle).code == ResponseCode.ILLEGAL_OPERATION
    assert recall(cluster, other, later).code == ResponseCode.SUCCESS


def test_a_log_that_ends_behind_the_decision_delivers_and_does_not_recall(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master that had decided has ended before it could append the copies."""
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 1 * SECOND)
    delivery = remote.front.delivery
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "_append", lambda *_: None)
        cluster.world.advance(SECOND)
        look(cluster)
        assert count(remote) == 0
    delivery._open.clear()
    assert recall(cluster, remote, handle).code == ResponseCode.ILLEGAL_OPERATION
    settle(cluster)
    assert count(remote) == 1


def test_a_recall_does_not_come_between_a_decision_and_its_delivery(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master's clock goes back by a second between the two."""
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 5 * SECOND)
    cluster.world.advance(5 * SECOND)
    kept: list[tuple[object, ...]] = []
    delivery = remote.front.delivery
    append = delivery._append
    monkeypatch.setattr(delivery, "_append", lambda *told: kept.append(told))
    look(cluster)
    assert len(kept) == 1
    remote.node.broker.clock = Behind(cluster, SECOND)
    assert recall(cluster, remote, handle).code == ResponseCode.ILLEGAL_OPERATION
    append(*kept[0])  # type: ignore[arg-type]
    cluster.replicate()
    assert count(remote) == 1


def test_nothing_is_delivered_before_it_is_known_what_is_recalled(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, other = remotings(cluster)
    handle = late(cluster, remote, 5 * SECOND)
    assert recall(cluster, remote, handle).code == ResponseCode.SUCCESS
    cluster.world.advance(6 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.remoting.recall.led.Loading.go_on", lambda _: None)
        cluster.lead(1)
        settle(cluster)
        assert (count(other), waiting(other)) == (0, 1)
    found = other.front.keeping.recalls._led
    for one in found.values():
        assert one._loading is not None
        one._loading.go_on()
    settle(cluster)
    assert (count(other), waiting(other)) == (0, 0)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "x",
        "%%%",
        "é",
        "v" * 5_000,
        handle_text(Handle("others", 0, 1 << 42, "ID")),  # type: ignore[arg-type]
        handle_text(Handle("events", 9, 1 << 42, "ID")),  # type: ignore[arg-type]
    ],
)
def test_a_handle_of_something_else_is_refused(cluster: Cluster, broken: str) -> None:
    remote, _ = remotings(cluster)
    late(cluster, remote, 20 * SECOND)
    assert recall(cluster, remote, broken).code == ResponseCode.ILLEGAL_OPERATION
    pass_time(cluster, 22 * SECOND)
    assert count(remote) == 1


def test_a_handle_of_another_topic_recalls_nothing(cluster: Cluster) -> None:
    """A client that may write to one topic names it, and has the handle of another."""
    cluster.create("others")
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 20 * SECOND)
    assert recall(cluster, remote, handle, "others").code == ResponseCode.ILLEGAL_OPERATION
    changed = handle_text(read_handle(handle)._replace(topic="others"))
    assert recall(cluster, remote, changed, "others").code == ResponseCode.SUCCESS
    pass_time(cluster, 22 * SECOND)
    assert count(remote) == 1, "its topic is not that of the message"


def test_only_what_waits_for_a_time_of_its_own_has_a_handle(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    late(cluster, remote, 20 * SECOND)
    for properties in (
        {"UNIQ_KEY": "a"},
        {"UNIQ_KEY": "a", "DELAY": "3"},
        {"UNIQ_KEY": "a", "TIMER_DELAY_SEC": "-1"},
    ):
        fields = sent("events", properties, n=SET)
        answer = ask(cluster, remote, RequestCode.SEND_MESSAGE_V2, fields)
        assert "recallHandle" not in answer.fields
    for name in ("", "with a blank", "x" * 256):
        assert not late(cluster, remote, 20 * SECOND, name)


def test_a_handle_reads_as_rocketmq_s_clients_read_it() -> None:
    handle = Handle("events", 3, 1_700_000_000_123, "7F00ID")  # type: ignore[arg-type]
    assert handle_text(handle) == "djEgZXZlbnRzIHNldC0zIDE3MDAwMDAwMDAxMjMgN0YwMElE"
    assert read_handle(handle_text(handle)) == handle
    assert read_handle(handle_text(handle._replace(message_id="7F00I")).rstrip("=")).topic
    for text in ("djIgYSBzZXQtMSAxIGE=", "djEgYSBzZXQtMSAxIA==", "djEgYSB4IDEgYQ=="):
        with pytest.raises(BadHandle):
            read_handle(text)


def test_records_say_what_they_are_and_nothing_else_is_taken_for_one() -> None:
    for event in (Through(77), Recalled(5, b"t" * 16, "a b")):
        assert event_of(record_of(event, 9)) == event
    for value in (b"", b"x", b"1 00 a", b"1 " + b"0" * 32, b"x " + b"0" * 32 + b" a", b"\xff"):
        assert event_of(Record(None, None, (("rmq.recalled", value),))) is None
    assert event_of(Record(None, b"v")) is None


def test_a_recall_is_forgotten_when_no_level_can_have_its_message(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    known = remote.front.keeping.recalls
    handle = late(cluster, remote, 20 * SECOND)
    recall(cluster, remote, handle)
    pass_time(cluster, 25 * SECOND)
    assert known.waiting() == 1
    cluster.world.advance(recalls.APART_MS)
    settle(cluster)
    assert known.waiting() == 0
    (place,) = known._led
    assert place.log.log_start_offset == place.log.log_end_offset


def test_a_recall_is_kept_as_long_as_a_level_can_not_be_delivered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The set can not write for an hour; what is recalled is not delivered then."""
    remote, _ = remotings(cluster)
    recall(cluster, remote, late(cluster, remote, 20 * SECOND))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.remoting.later.delivery._Source.check", refused)
        for _ in range(60):
            cluster.world.advance(MINUTE)
            settle(cluster)
        assert remote.front.keeping.recalls.waiting() == 1
    pass_time(cluster, 20 * SECOND)
    assert (count(remote), waiting(remote)) == (0, 0)


def refused(_: object) -> None:
    raise NotMaster("nothing can be written")


def test_a_set_has_so_many_recalls_and_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led, "RECALLS_MAX", 2)
    remote, _ = remotings(cluster)
    handles = [late(cluster, remote, 20 * SECOND, f"{n}") for n in range(3)]
    codes = [recall(cluster, remote, one).code for one in handles]
    assert codes == [ResponseCode.SUCCESS] * 2 + [ResponseCode.SYSTEM_BUSY]
    assert recall(cluster, remote, handles[0]).code == ResponseCode.SUCCESS


def test_a_time_for_which_nothing_waits_is_not_kept(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    handle = read_handle(late(cluster, remote, 20 * SECOND))
    far = cluster.world.wall_ms() + 50 * DAY
    answer = recall(cluster, remote, handle_text(handle._replace(until_ms=far)))
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert remote.front.keeping.recalls.waiting() == 0


def test_what_a_new_master_reads_has_a_bound(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old recall moves to the end, as the time does up to which is decided."""
    monkeypatch.setattr(led, "MOVED_BEHIND", 10)
    remote, other = remotings(cluster)
    old = late(cluster, remote, 10 * MINUTE, "OLD")
    recall(cluster, remote, old)
    late(cluster, remote, 1 * SECOND, "SOON")
    pass_time(cluster, 2 * SECOND)
    for _ in range(40):
        recall(cluster, remote, late(cluster, remote, 8 * MINUTE, "SAME"))
        look(cluster)
        cluster.replicate()
    known = remote.front.keeping.recalls
    (place,) = known._led
    assert place.log.log_end_offset - place.log.log_start_offset <= 60
    decided = known._led[place].state.through_ms
    cluster.lead(1)
    pass_time(cluster, 500)
    (led_there,) = other.front.keeping.recalls._led.values()
    assert led_there.is_ready
    assert led_there.state.through_ms == decided > 0
    assert len(led_there.state) == known.waiting() or len(led_there.state) > 1
    pass_time(cluster, 10 * MINUTE)
    assert [one.properties.count("OLD") for one in other.pull("events")] == [0]


def test_messages_of_deleted_topics_leave_no_recalls_behind(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    handle = late(cluster, remote, 20 * SECOND)
    recall(cluster, remote, handle)
    cluster.metadata.submit(DeleteTopics(topics=(TopicReference(name="events"),)))
    pass_time(cluster, 22 * SECOND)
    assert waiting(remote) == 0


def test_the_state_names_what_it_needs() -> None:
    kept = RecallState()
    assert kept.first() is None
    first, second = Recalled(50, b"t" * 16, "a"), Recalled(40, b"t" * 16, "b")
    kept.apply(first, 3)
    kept.apply(second, 4)
    kept.apply(Through(30), 5)
    kept.apply(Through(20), 6)
    assert (kept.through_ms, kept.first()) == (30, 3)
    assert kept.before(4, 10) == [first]
    kept.apply(first, 7)
    assert (kept.first(), kept.before(6, 10)) == (4, [Through(30), second])
    kept.forget(50)
    assert (first in kept, second in kept, kept.first(), len(kept)) == (True, False, 5, 1)
    assert state.RECALLS_MAX * state.RECALL_BYTES <= 32 << 20


def test_recalls_are_in_a_topic_of_penstock_s_own(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    late(cluster, remote, 20 * SECOND)
    assert remote.node.broker.partitions.by_name[RECALL_TOPIC.encode()].internal
