"""What half messages leave behind: sums, the offsets of copies, and when decisions are settled."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.remoting.halves import halves as halves_room
from penstock.remoting.halves import led as led_room
from penstock.remoting.wire.codes import ResponseCode
from penstock.storage.errors import LogBusy
from tests.broker.cluster import Cluster
from tests.remoting.half_client import (
    COMMIT,
    END,
    SECOND,
    SEND,
    answered,
    bodies,
    ended,
    half_cluster,
    pass_time,
    taken,
)
from tests.remoting.served import sent
from tests.remoting.world import SET, Remoting, remotings, settle


@pytest.fixture
def cluster() -> Cluster:
    return half_cluster()


def end_of_halves(cluster: Cluster) -> int:
    hosted = cluster.nodes[0].broker.partitions.by_name[b"__half_messages"].partitions[0]
    assert hosted is not None
    return hosted.log.log_end_offset


def test_decisions_are_settled_so_long_after_the_last_of_them(cluster: Cluster) -> None:
    remote, _ = remotings(cluster)
    taken(cluster, remote, b"older")
    ended(cluster, remote, taken(cluster, remote, b"first"), COMMIT)
    pass_time(cluster, 6 * SECOND)
    ended(cluster, remote, taken(cluster, remote, b"last"), COMMIT)
    end = end_of_halves(cluster)
    pass_time(cluster, 6 * SECOND)
    assert end_of_halves(cluster) == end
    pass_time(cluster, 5 * SECOND)
    assert end_of_halves(cluster) == end + 1


def test_copies_that_need_a_batch_each_are_known_again_by_the_next_master(
    cluster: Cluster,
) -> None:
    cluster.create("small", max_message_bytes="1000")
    first, second = remotings(cluster)
    told = {"TRAN_MSG": "true", "PGROUP": "payers"}
    asked = [
        first.send(SEND, sent("small", told | {"UNIQ_KEY": f"ID-{n}"}, n=SET), body)
        for n, body in enumerate((b"a" * 400, b"b" * 400))
    ]
    cluster.replicate()
    cluster.replicate()
    decided = [first.send(END, names(first, one) | {"commitOrRollback": COMMIT}) for one in asked]
    cluster.world.run()
    cluster.replicate()
    cluster.replicate()
    assert [first.answer(one).code for one in decided] == [0, 0]  # type: ignore[union-attr]
    cluster.lead(1)
    settle(cluster)
    assert [one[:1] for one in bodies(second, "small")] == [b"a", b"b"], "none comes twice"


def names(remote: Remoting, asked: int) -> dict[str, Any]:
    answer = remote.answer(asked)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return {
        "topic": "small",
        "producerGroup": "payers",
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": int(answer.fields["msgId"][-16:], 16),
        "msgId": "",
        "transactionId": answer.fields["transactionId"],
        "fromTransactionCheck": "false",
    }


def test_a_decision_whose_message_can_not_be_read_now_is_refused_and_not_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, _ = remotings(cluster)
    named = taken(cluster, remote)

    def busy(_broker: Any, _hosted: Any, _offset: int, _most: int, on_read: Any) -> None:
        on_read(SimpleNamespace(error=LogBusy("set-1"), buffers=()))

    with monkeypatch.context() as patched:
        patched.setattr(led_room, "read_at", busy)
        assert ended(cluster, remote, named, COMMIT).code != ResponseCode.SUCCESS
    (led,) = remote.front.halves._led.values()
    assert (led._work_count, len(led._work)) == (0, 0)
    assert ended(cluster, remote, named, COMMIT).code == ResponseCode.SUCCESS


def test_half_messages_of_a_topic_leave_room_for_those_of_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to one topic can name every producer group, and decide nothing."""
    monkeypatch.setattr(led_room, "OF_GROUP_MAX", 2)
    monkeypatch.setattr(halves_room, "HALVES_MAX", 8)
    monkeypatch.setattr(halves_room, "OF_TOPIC_MAX", 6)
    remote, _ = remotings(cluster)

    def code(topic: str, group: str, number: int) -> int:
        told = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": f"ID-{topic}-{group}-{number}"}
        asked = remote.send(SEND, sent(topic, told, n=SET, f=4), b"body")
        return answered(cluster, remote, asked).code

    of_one = [code("other", group, n) for group in ("payers", "a", "b", "c") for n in range(3)]
    taken_two = [ResponseCode.SUCCESS, ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY]
    assert of_one == taken_two * 3 + [ResponseCode.SYSTEM_BUSY] * 3
    assert [code("events", "payers", n) for n in range(3)] == taken_two
