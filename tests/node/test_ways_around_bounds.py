"""Ways to keep others from what is theirs, tried by a user with few rights.

Everybody may call himself a producer of any group and topic, and choose any client id: that is how
RocketMQ's clients are. And everybody may ask for lists, though they have nothing for him. So what
is told must take nothing away from others, and what is asked keep nobody waiting.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from penstock.net.errors import CloseKind
from penstock.remoting.operating.questions import AT_ONCE
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import encode_frame
from tests.node.ways_around import FOREIGN, HIDDEN, OPEN, OWN, PASSWORDS, Fronts, running_fronts
from tests.remoting.served import pulled, sent
from tests.remoting.signing import SignedRemote, signed

RUNNING = RequestCode.GET_CONSUMER_RUNNING_INFO
NAMES = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
OF_USER = AT_ONCE * 3 // 4
GROUP, CLIENT = "payers", "victim@1"
CROWD = 150
"""Clients that a user calls producers: more than one question looks at."""
MESSAGES, PULLS, LISTS = 40, 100, 8
"""Of 250 kB each; asked for again and again, by one who takes none; and lists behind them."""


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronts]:
    with running_fronts(tmp_path_factory.mktemp("bounds")) as fronts:
        yield fronts


def beat(client: SignedRemote, *client_ids: str) -> None:
    """Say that clients of these ids are producers of the group."""
    for client_id in client_ids:
        body = {"clientID": client_id, "producerDataSet": [{"groupName": GROUP}]}
        answer = client.ask(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())
        assert answer.code == ResponseCode.SUCCESS


def half(client: SignedRemote, body: bytes) -> None:
    """Send a half message that its producers are asked about after a second."""
    told = {"TRAN_MSG": "true", "PGROUP": GROUP, "CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, sent(HIDDEN, told, f=4), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def test_who_takes_the_client_id_of_another_producer_does_not_take_its_place(
    fronts: Fronts,
) -> None:
    with fronts.remoting("root") as victim, fronts.remoting() as alice:
        beat(victim, CLIENT)
        half(victim, b"taken over")
        beat(alice, CLIENT)
        alice.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": CLIENT, "producerGroup": GROUP})
        assert victim.receive().code == RequestCode.CHECK_TRANSACTION_STATE


def test_a_crowd_of_those_who_may_not_be_asked_hides_nobody(fronts: Fronts) -> None:
    with fronts.remoting("root") as victim, fronts.remoting() as alice:
        beat(alice, *(f"crowd-{number}" for number in range(CROWD)))
        beat(victim, CLIENT)
        half(victim, b"in the crowd")
        assert victim.receive().code == RequestCode.CHECK_TRANSACTION_STATE


def burst(client: SignedRemote, requests: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """Send requests of alice's together, and read no answer."""
    frames = []
    for number, (code, fields) in enumerate(requests):
        proved = signed(fields, b"", "alice", PASSWORDS["alice"])
        named = {name: str(value) for name, value in proved.items()}
        frames.append(encode_frame(Command(code=code, fields=named, opaque=number)))
    client.socket.sendall(b"".join(frames))


def test_who_reads_no_answers_keeps_nobody_waiting_for_lists(fronts: Fronts) -> None:
    """A list waits until its client takes what it was sent before, and takes no turn meanwhile."""
    listener = fronts.node.node._listener
    assert listener is not None
    room, stats = listener._context.room, listener.stats
    with fronts.remoting("root") as root, fronts.remoting() as alice:
        for _ in range(MESSAGES):
            answer = root.ask(RequestCode.SEND_MESSAGE_V2, sent(OPEN), bytes(250_000))
            assert answer.code == ResponseCode.SUCCESS
        pulls = [pulled(OPEN, number % MESSAGES, consumerGroup=OWN) for number in range(PULLS)]
        asked = [(int(RequestCode.PULL_MESSAGE), one) for one in pulls]
        burst(alice, [*asked, *[(int(NAMES), {})] * LISTS])
        assert fronts.node.until(lambda: any(one.is_choked for one in room._waiting))
        assert HIDDEN.encode() in bytes(root.ask(NAMES, {}).body)
        assert fronts.node.call(lambda: room.waiting) > 0, "it has not been ended for it"
        assert not fronts.node.call(lambda: stats.closed[CloseKind.ANSWERS_NOT_READ])


def test_who_asks_clients_that_never_answer_leaves_some_to_be_asked(fronts: Fronts) -> None:
    with fronts.remoting("root") as root, fronts.remoting() as alice:
        for client, group in ((root, FOREIGN), (alice, OWN)):
            body = {"clientID": CLIENT, "consumerDataSet": [{"groupName": group}]}
            client.ask(RequestCode.HEART_BEAT, {}, json.dumps(body).encode())
        own = {"consumerGroup": OWN, "clientId": CLIENT}
        asked = [alice.send(RUNNING, own) for _ in range(AT_ONCE + 1)]
        busy = alice.receive_answer()
        assert (busy.opaque, busy.code) == (asked[OF_USER], ResponseCode.SYSTEM_BUSY)
        root.send(RUNNING, {"consumerGroup": FOREIGN, "clientId": CLIENT})
        while (question := root.receive()).code != RUNNING or question.is_answer:
            pass
