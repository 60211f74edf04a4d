"""The messages that attack the ports of peers are legal: they are read, and not refused by size."""

from harness.bad_input.frame import framed
from harness.bad_input.largest_peers import largest_messages, questions
from penstock.controller.session import Heartbeat, Submit
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX
from penstock.node.peers import CONTROLLER_FRAME_BYTES_MAX
from penstock.raft.messages import AppendEntries, InstallSnapshot
from penstock.replication.messages import Begin, Hello
from penstock.replication.wire import EPOCHS_MAX, SLAVE_FRAME_BYTES_MAX, decode
from penstock.runtime.calls.messages import CALL_CODEC, check
from penstock.runtime.raft.codec import ENTRIES_MAX, RAFT_CODEC, SNAPSHOT_BYTES_MAX
from penstock.runtime.session.messages import SESSION_CODEC, SETS_MAX


def test_the_largest_messages_of_raft_are_read_whole():
    bodies = largest_messages(b"raft")
    appended, installed = map(RAFT_CODEC.decode, bodies)
    assert isinstance(appended, AppendEntries)
    assert isinstance(installed, InstallSnapshot)
    assert len(appended.entries) == ENTRIES_MAX
    assert len(installed.data) > SNAPSHOT_BYTES_MAX * 0.99
    assert max(map(len, bodies)) <= CONTROLLER_FRAME_BYTES_MAX


def test_the_largest_messages_of_sessions_are_read_whole():
    heartbeat, *submitted = map(SESSION_CODEC.decode, largest_messages(b"session"))
    assert isinstance(heartbeat, Heartbeat)
    assert len(heartbeat.sets) == SETS_MAX
    commands = [one.command for one in submitted if isinstance(one, Submit)]
    assert len(commands) == len(submitted)
    assert min(map(len, commands)) > CONTROLLER_FRAME_BYTES_MAX * 0.9


def test_the_largest_message_of_a_slave_is_read_whole():
    (hello,) = largest_messages(b"ha")
    assert len(hello) > SLAVE_FRAME_BYTES_MAX * 0.99
    read = decode(memoryview(hello))
    assert isinstance(read, Hello)
    assert len(read.shape.epochs) == EPOCHS_MAX


def test_the_largest_questions_of_brokers_are_read_whole():
    bodies = largest_messages(b"call")
    for body in bodies:
        check(CALL_CODEC.decode(body))
    assert max(map(len, bodies)) > FRAME_BYTES_MAX * 0.9


def test_small_questions_are_whole_frames():
    (frame,) = questions(b"ha")
    body = frame[4 : 4 + int.from_bytes(frame[:4], "big")]
    assert isinstance(decode(memoryview(body)), Begin)
    assert frame == framed(body) * 100
