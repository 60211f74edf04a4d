"""Every request that a node serves, as the apparatus of bad input makes it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from harness.bad_input.remoting_frames import remoting_frames
from harness.bad_input.remoting_schemas import (
    SCHEMAS,
    TOPIC,
    largest_request,
    legal_request,
)
from harness.bad_input.remoting_sender import call_remoting, problem_of
from harness.bad_input.sender import Tally
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.needs import NEEDS
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame
from tests.live_node import LiveNode
from tests.remoting.served import Remote, running_remoting_node

CODES = sorted(SCHEMAS)
REFUSED = {
    RequestCode.CONSUMER_SEND_MSG_BACK: ResponseCode.SYSTEM_ERROR,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ResponseCode.CONSUMER_NOT_ONLINE,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ResponseCode.SYSTEM_ERROR,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ResponseCode.SYSTEM_ERROR,
    RequestCode.END_TRANSACTION: ResponseCode.SYSTEM_ERROR,
    RequestCode.RECALL_MESSAGE: ResponseCode.ILLEGAL_OPERATION,
    RequestCode.ACK_MESSAGE: ResponseCode.NO_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE: ResponseCode.NO_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ResponseCode.NO_MESSAGE,
}
"""What names something that is not there."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("requests")) as served:
        served[0].submit(CreateTopics(topics=(NewTopic(name=TOPIC, partition_count=4),)))
        with closing(Remote(served[1])) as first:  # requests read what is there, in any order
            sent = legal_request(RequestCode.SEND_MESSAGE_V2, 1, Serialisation.JSON)
            assert first.ask(sent.code, sent.fields, bytes(sent.body)).code == ResponseCode.SUCCESS
        yield served


def test_every_request_that_is_served_has_a_schema() -> None:
    assert set(SCHEMAS) == set(NEEDS)


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_a_legal_request_is_served(remote: Remote, code: RequestCode) -> None:
    command = legal_request(code, 7, Serialisation.JSON)
    remote.socket.sendall(encode_frame(command))
    answer = answer_of(remote, 7)
    good = {ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT}
    good |= {ResponseCode.QUERY_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY}
    refused = {REFUSED[code]} if code in REFUSED else set()
    assert ResponseCode(answer.code) in good | refused, answer.remark


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_the_largest_legal_request_is_answered(remote: Remote, code: RequestCode) -> None:
    remote.socket.sendall(largest_request(code, 7))
    answer = answer_of(remote, 7)
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "at most" not in (answer.remark or ""), "it is legal"


def answer_of(remote: Remote, opaque: int) -> Command:
    """Return the answer to a request; members may be told of each other before it."""
    while True:
        answer = remote.receive_answer()
        if answer.is_answer:
            assert answer.opaque == opaque
            return answer


def test_bad_frames_of_every_kind_are_dealt_with(
    node: LiveNode, served: tuple[LiveNode, str]
) -> None:
    host, port = served[1].split(":")
    tally = Tally()
    call_remoting((host, int(port)), remoting_frames(5, 400), tally)
    assert tally.problems == []
    assert tally.sent == tally.answered + tally.refused + tally.waited_for == 400
    assert min(tally.answered, tally.refused) > 40
    errors = node.call(lambda: dict(node.broker.stats.request_errors))
    assert "unhandled" not in errors, errors
    with closing(Remote(served[1])) as after:
        assert after.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC}).code == 0


def test_frames_of_a_seed_are_the_same_and_of_all_kinds() -> None:
    frames = list(remoting_frames(3, 600))
    assert frames[100:110] == list(remoting_frames(3, 10, 100))
    kinds = Counter(one.kind for one in frames)
    assert len(kinds) == 18
    assert {one.target for one in frames} == {code.name for code in SCHEMAS}


def answer() -> bytes:
    return encode_frame(Command(0, opaque=1, flag=1))


@pytest.mark.parametrize(
    ("received", "problem"),
    [
        (b"", ""),
        (answer(), ""),
        (answer() + answer()[:9], ""),
        (encode_frame(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=2)), ""),
        (encode_frame(Command(RequestCode.CHECK_TRANSACTION_STATE)), "wants an answer"),
        (b"\0\0\0\4\x05\0\0\0", "an answer that is none"),
        (answer() + b"\0\0\0\4\xff\0\0\0", "an answer that is none"),
    ],
)
def test_what_a_node_must_not_send_is_a_problem(received: bytes, problem: str) -> None:
    assert problem in problem_of(received)
    assert bool(problem) == bool(problem_of(received))
