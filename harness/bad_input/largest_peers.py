"""The largest legal messages between peers, for each purpose, and questions that are small.

They come from a peer that is no member, in term 0, and ask for nothing that a controller would do.

Source: docs/formats/peer-links.md, ha-link.md.
"""

import os
import random
from collections.abc import Iterator

import msgspec

from harness.bad_input.frame import framed
from harness.bad_input.peers import STRANGER_ID
from harness.bad_input.plain_messages import plain_message
from penstock.base.ids import LeaderEpoch, Position, ReplicaId, ReplicaSetId
from penstock.controller.session import Heartbeat, SetReport, StatusRequest, Submit
from penstock.coordinator.calls.transactions import ENTRIES_MAX, PARTITIONS_MAX
from penstock.node.peers import CONTROLLER_FRAME_BYTES_MAX
from penstock.raft.messages import AppendEntries, InstallSnapshot
from penstock.replication.alignment import LogShape
from penstock.replication.epochs import EpochStart
from penstock.replication.messages import Begin, Hello
from penstock.replication.wire import EPOCHS_MAX, encode
from penstock.runtime.raft.codec import ENTRIES_MAX as RAFT_ENTRIES_MAX
from penstock.runtime.raft.codec import RAFT_CODEC, SNAPSHOT_BYTES_MAX
from penstock.runtime.session.messages import SESSION_CODEC, SETS_MAX

_FIELDS = random.Random(36)


def _appended() -> bytes:
    """Return entries up to the limits of bytes and number; nobody believes their term."""
    room = CONTROLLER_FRAME_BYTES_MAX - (1 << 20)
    each = room // RAFT_ENTRIES_MAX - 64
    one = plain_message(AppendEntries, _FIELDS)
    while not one["entries"]:
        one = plain_message(AppendEntries, _FIELDS)
    entry = one["entries"][0] | {"data": os.urandom(each)}
    one |= {"sender": STRANGER_ID, "term": 0, "entries": [entry] * RAFT_ENTRIES_MAX}
    return RAFT_CODEC._heads[AppendEntries] + msgspec.msgpack.encode(one)


def _snapshot() -> bytes:
    one = plain_message(InstallSnapshot, _FIELDS)
    one |= {"sender": STRANGER_ID, "term": 0, "voters": [], "vacant": [], "directories": []}
    one["data"] = os.urandom(SNAPSHOT_BYTES_MAX - (1 << 10))
    return RAFT_CODEC._heads[InstallSnapshot] + msgspec.msgpack.encode(one)


def _heartbeat() -> bytes:
    one = plain_message(Heartbeat, _FIELDS)
    report = plain_message(SetReport, _FIELDS)
    one |= {"broker_id": STRANGER_ID, "sets": [report] * SETS_MAX}
    return SESSION_CODEC._heads[Heartbeat] + msgspec.msgpack.encode(one)


def _submitted() -> Iterator[bytes]:
    """Yield commands that fill a frame: of the most topics, with names that are not allowed."""
    head = SESSION_CODEC._heads[Submit]
    name = "n" * ((CONTROLLER_FRAME_BYTES_MAX >> 10) - 100)
    topics = [{"name": f"{name}{number}"} for number in range(1_000)]
    named = msgspec.msgpack.encode(["CreateTopics", {"topics": topics, "validate_only": True}])
    lists = b"\x92\xacDeleteTopics\x81\xa6topics\xdc\xff\xff" + b"\x91" * (16 << 20)
    for command in (named, lists, os.urandom(16 << 20)):
        yield head + msgspec.msgpack.encode({"request_id": 7, "command": command})


def _log_shape() -> bytes:
    count = EPOCHS_MAX
    epochs = [EpochStart(LeaderEpoch(at), Position(9 * at)) for at in range(count)]
    shape = LogShape(epochs, Position(0), Position(9 * count))
    own = Hello(ReplicaSetId(1), LeaderEpoch(1), ReplicaId(STRANGER_ID), "stranger", shape)
    return b"".join(map(bytes, encode(own)))


def _calls() -> Iterator[bytes]:
    topic = b"t" * 16
    entry = {
        "producer_id": 900,
        "producer_epoch": 0,
        "coordinator_epoch": 0,
        "is_commit": False,
        "transaction_version": 1,
        "partitions": [[topic, 0, -1]],
    }
    yield bytes((1, 1)) + msgspec.msgpack.encode(
        {"correlation": 1, "entries": [entry | {"number": 0} for _ in range(ENTRIES_MAX)]}
    )
    yield bytes((2, 1)) + msgspec.msgpack.encode(
        {
            "correlation": 1,
            "transactional_id": "stranger",
            "producer_id": 900,
            "producer_epoch": 0,
            "is_verify_only": True,
            "partitions": [["topic", one] for one in range(PARTITIONS_MAX)],
        }
    )


def largest_messages(purpose: bytes) -> list[bytes]:
    """Return bodies of the largest legal messages that a peer may send for a purpose."""
    match purpose:
        case b"raft":
            return [_appended(), _snapshot()]
        case b"session":
            return [_heartbeat(), *_submitted()]
        case b"ha":
            return [_log_shape()]
        case _:
            return list(_calls())


def questions(purpose: bytes) -> list[bytes]:
    """Return frames of small messages, of which each is answered whoever asks."""
    match purpose:
        case b"session":
            head = SESSION_CODEC._heads[StatusRequest]
            body = head + msgspec.msgpack.encode({"request_id": 1})
        case b"raft":
            ask = {"sender": STRANGER_ID, "term": 0, "is_pre_vote": True, "is_transfer": False}
            body = bytes((1, 1)) + msgspec.msgpack.encode({**ask, "last_index": 0, "last_term": 0})
        case b"ha":
            body = b"".join(
                map(
                    bytes, encode(Begin(ReplicaSetId(-7), LeaderEpoch(1), Position(0), Position(0)))
                )
            )
        case _:
            body = bytes((127, 1)) + msgspec.msgpack.encode({"correlation": 1})
    return [framed(body) * 100]
