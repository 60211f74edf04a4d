"""The rows of RocketMQ's clients, and what a JVM says of its heap."""

import pytest

from benchmarks.parts.java_servers import used_in
from benchmarks.peers.message_rows import groups
from benchmarks.peers.model import CanNotRun, Spec
from benchmarks.peers.rows import all_groups
from benchmarks.peers.servers import StubServer

QUESTIONS = [question for group in groups() for question in group.questions]

HEAP = """4711:
 garbage-first heap   total 3932160K, used 52428K [0x0000000710000000, 0x0000000800000000)
  region size 16384K, 4 young (65536K), 1 survivors (16384K)
 Metaspace       used 41231K, committed 41728K, reserved 1114112K
"""


def test_both_sides_of_a_row_listen_to_both_kinds_of_clients() -> None:
    assert all(spec.has_messages for one in QUESTIONS for spec in one.specs)
    assert {spec.product for one in QUESTIONS for spec in one.specs} == {"penstock", "rocketmq"}


def test_servers_of_other_rows_have_no_such_listeners() -> None:
    names = {one.name for one in QUESTIONS}
    others = [one for group in all_groups() for one in group.questions if one.name not in names]
    assert others
    assert not any(spec.has_messages for one in others for spec in one.specs)


def test_each_row_has_servers_of_its_own_and_a_goal() -> None:
    assert all(len(group.questions) == 1 for group in groups())
    for question in QUESTIONS:
        rocket = Spec(product="rocketmq", has_messages=True)
        targets = [one.target_against(rocket, question.ours) for one in question.figures]
        assert targets[0] == (3.0 if "-grpc-" in question.name else 1.5), question.name


def test_what_a_heap_holds_is_read_from_its_own_words() -> None:
    assert used_in(HEAP) == 52_428 * 1024
    with pytest.raises(ValueError, match="no heap"):
        used_in("4711:\nMetaspace used 1K")


def test_a_server_that_does_not_listen_to_these_clients_says_so() -> None:
    stub = StubServer(Spec(product="stub"))
    with pytest.raises(CanNotRun, match="does not listen to remoting"):
        assert stub.remoting
    with pytest.raises(CanNotRun, match="does not listen to gRPC"):
        assert stub.grpc
