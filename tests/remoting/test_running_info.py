"""A consumer is asked what it does, for somebody who operates the cluster."""

import asyncio
from contextlib import closing
from itertools import count as counted

import pytest

from harness.waiting import wait_until
from penstock.remoting.operating import questions
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.served import Remote
from tests.remoting.test_admin import code, member

ASK = RequestCode.GET_CONSUMER_RUNNING_INFO
_numbers = counted()


@pytest.fixture
def group(remote: Remote) -> str:
    """A group with one member, `c1`, the client `remote`."""
    name = f"asked-{next(_numbers)}"
    member(remote, name, "any")
    return name


def question(remote: Remote) -> Command:
    """The next question to a client; notices of changes of groups are passed over."""
    while (asked := remote.receive()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
        pass
    return asked


def fields(group: str, client: str = "c1") -> dict[str, str]:
    return {"consumerGroup": group, "clientId": client, "jstackEnable": "true"}


def under_way(node: LiveNode) -> int:
    front = node.node._rocketmq.remoting
    assert front is not None
    return node.call(lambda: len(front.questions))


@pytest.mark.parametrize("form", Serialisation)
def test_the_question_is_passed_on_and_the_answer_comes_back_as_it_is(
    served: tuple[LiveNode, str], remote: Remote, group: str, form: Serialisation
) -> None:
    with closing(Remote(served[1], form)) as operator:
        asked_fields = fields(group) | {"n": "name", "bname": "set-1"}
        number = operator.send(ASK, asked_fields)
        asked = question(remote)
        assert (asked.code, dict(asked.fields)) == (ASK, fields(group))
        assert not asked.is_one_way
        body = b'{"jstack":"\xe2\x82\xac",{"queue":1}:2}'
        answer = asked.answer(ResponseCode.SUCCESS, {"x": "y"}, body=body, remark="told")
        remote.socket.sendall(encode_frame(answer))
        told = operator.receive_answer()
    assert (told.opaque, code(told)) == (number, ResponseCode.SUCCESS)
    assert (bytes(told.body), told.fields, told.remark) == (body, {"x": "y"}, "told")


def test_a_refusal_of_the_client_is_told_as_one(remote: Remote, other: Remote, group: str) -> None:
    other.send(ASK, fields(group))
    refused = question(remote).answer(ResponseCode.SYSTEM_ERROR, remark="not now")
    remote.socket.sendall(encode_frame(refused))
    told = other.receive_answer()
    assert (code(told), told.remark) == (ResponseCode.SYSTEM_ERROR, "not now")


@pytest.mark.parametrize(("of", "client"), [("none", "c1"), ("own", "c2")])
def test_who_is_no_member_of_the_group_here_is_not_online(
    other: Remote, group: str, of: str, client: str
) -> None:
    named = group if of == "own" else f"no-{group}"
    told = other.ask(ASK, fields(named, client))
    assert code(told) is ResponseCode.SYSTEM_ERROR
    assert told.remark == f"The Consumer <{named}> <{client}> not online"


def test_a_client_that_goes_is_waited_for_no_longer(
    served: tuple[LiveNode, str], other: Remote
) -> None:
    with closing(Remote(served[1])) as gone:
        member(gone, "goes", "any", client="g1")
        other.send(ASK, fields("goes", "g1"))
        question(gone)
    told = other.receive_answer()
    assert (code(told), told.remark) == (ResponseCode.SYSTEM_ERROR, "the client has gone")
    assert under_way(served[0]) == 0


def test_a_client_that_never_answers_is_given_up(
    remote: Remote, other: Remote, group: str, node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "ANSWER_MS", 20)
    told = other.ask(ASK, fields(group))
    assert code(told) is ResponseCode.CONSUME_MSG_TIMEOUT
    assert (told.remark, under_way(node)) == ("no answer of the client in 20 ms", 0)
    late = question(remote).answer(ResponseCode.SUCCESS, body=b"late")
    remote.socket.sendall(encode_frame(late))
    assert code(remote.ask_among(RequestCode.GET_BROKER_CLUSTER_INFO, {})) == 0, "and goes on"


def test_an_answer_counts_on_the_connection_that_was_asked(
    served: tuple[LiveNode, str], remote: Remote, other: Remote, group: str
) -> None:
    other.send(ASK, fields(group))
    asked = question(remote)
    with closing(Remote(served[1])) as stranger:
        forged = asked.answer(ResponseCode.SUCCESS, body=b"forged")
        stranger.socket.sendall(encode_frame(forged))
        assert stranger.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {}).code == 0, "it was read"
    twice = encode_frame(asked.answer(ResponseCode.SUCCESS, body=b"own"))
    remote.socket.sendall(twice + twice)
    assert bytes(other.receive_answer().body) == b"own"


def test_an_answer_that_is_too_long_is_not_passed_on(
    remote: Remote, other: Remote, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "ANSWER_BYTES_MAX", 10)
    for size, expected in ((10, ResponseCode.SUCCESS), (11, ResponseCode.SYSTEM_ERROR)):
        other.send(ASK, fields(group))
        answer = question(remote).answer(ResponseCode.SUCCESS, body=b"x" * size)
        remote.socket.sendall(encode_frame(answer))
        told = other.receive_answer()
        assert code(told) is expected
    assert told.remark == "the client answers with 11 bytes, at most 10 are told"


def test_few_are_asked_at_once_and_others_hear_that_they_are_to_come_again(
    remote: Remote, other: Remote, group: str, node: LiveNode
) -> None:
    for _ in range(questions.AT_ONCE):
        other.send(ASK, fields(group))
    assert wait_until(lambda: under_way(node) == questions.AT_ONCE, UNTIL_SECONDS)
    busy = other.ask(ASK, fields(group))
    assert code(busy) is ResponseCode.SYSTEM_BUSY
    numbers = set()
    for _ in range(questions.AT_ONCE):
        asked = question(remote)
        numbers.add(asked.opaque)
        body = b"%d" % asked.opaque
        remote.socket.sendall(encode_frame(asked.answer(ResponseCode.SUCCESS, body=body)))
    told = {int(bytes(other.receive_answer().body)) for _ in range(questions.AT_ONCE)}
    assert told == numbers
    assert len(numbers) == questions.AT_ONCE, "each has a number of its own"
    assert under_way(node) == 0


class Asked:
    """A connection that takes what it is sent."""

    is_closed = False

    def reserve(self) -> "Asked":
        return self

    def send(self, *_: bytes) -> None:
        pass


def test_an_answer_is_kept_when_its_buffer_is_used_again() -> None:
    async def ask() -> bytes:
        asked, connection, buffer = questions.Questions(), Asked(), bytearray(b"answer")
        waiting = asyncio.ensure_future(asked.ask(connection, Command(code=ASK)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        answer = Command(code=0, body=memoryview(buffer), opaque=1, flag=1)
        asked.answered(connection, answer)  # type: ignore[arg-type]
        buffer[:] = b"others"
        return bytes((await waiting).body)

    assert asyncio.run(ask()) == b"answer"
