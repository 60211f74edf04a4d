"""How late does a group's session end?

A member that is silent is out of its group when its session time is over: until then its
partitions are read by nobody. Groups of one member are made one after the other; nobody sends a
heartbeat. Another connection asks for the state of the group that is due next, again and again,
until it is empty. Late is what that answer is behind the member's last request and its session
time: it includes what the member's request took, the record of the change on the disk, and the
question itself.
"""

import socket
import time
from typing import Any

from benchmarks import RESULTS
from benchmarks.parts.nodes import FSYNC, temporary_node
from harness.bad_input.frame import framed
from harness.results import percentile, publish
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import decode_response, encode_request

GOAL = "99 of 100 sessions end at most 5 ms late"
SESSION_MS = 2_000
APART_SECONDS = 0.025
ANSWER_SECONDS = 10.0
ALONE, BESIDE = "a group alone", "beside 2,000 groups of one member"
JOIN, SYNC, DESCRIBE, FIND = 2, 0, 0, 0
_COORDINATOR_NOT_READY = {14, 15, 16}


class Asker:
    """One connection that asks one thing at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        """Return the decoded answer."""
        head = request_header(key, version, correlation_id=1, client_id="session-ends")
        self._socket.sendall(framed(head + encode_request(key, version, fields)))
        size = int.from_bytes(self._take(4), "big")
        return decode_response(key, version, memoryview(self._take(size)), 4)

    def _take(self, size: int) -> bytes:
        taken = self._socket.recv(size, socket.MSG_WAITALL)
        if len(taken) < size:
            raise ConnectionResetError("closed by the node")
        return taken


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    count = 50 if quick else 400
    groups: dict[str, object] = {"session_timeout_min_ms": 100, "initial_rebalance_delay_ms": 0}
    rows = []
    with temporary_node({**FSYNC, "groups": groups}) as node:
        asker = Asker(node.bootstrap)
        _join(asker, "first", 60_000)
        for case, others in ((ALONE, 0), (BESIDE, 2_000)):
            for number in range(others):
                _join(asker, f"other-{number}", 600_000)
            late = sorted(_late_ms(asker, case, count))
            rows.append(
                {
                    "case": case,
                    "sessions": count,
                    "late p50 ms": round(percentile(late, 0.5), 2),
                    "late p99 ms": round(percentile(late, 0.99), 2),
                    "latest ms": round(late[-1], 2),
                }
            )
        asker.close()
    publish(RESULTS, "session_ends", rows, goal=GOAL)


def _late_ms(asker: Asker, case: str, count: int) -> list[float]:
    """Return for each of `count` sessions by how many milliseconds its end was seen late."""
    made: list[tuple[str, float]] = []
    late: list[float] = []
    while len(late) < count:
        if len(made) < count and (not made or time.perf_counter() - made[-1][1] > APART_SECONDS):
            group = f"{case} {len(made)}"
            made.append((group, _join(asker, group, SESSION_MS)))
        group, begun = made[len(late)]
        due = begun + SESSION_MS / 1000
        if time.perf_counter() < due - APART_SECONDS / 5:
            time.sleep(APART_SECONDS / 25)
            continue
        while not _is_empty(asker, group):
            pass
        late.append((time.perf_counter() - due) * 1000)
    return late


def _join(asker: Asker, group: str, session_ms: int) -> float:
    """Make the group with one member, which leads it; return when its last request was sent."""
    protocols = [{"name": "range", "metadata": b""}]
    fields = {
        "group_id": group,
        "session_timeout": session_ms,
        "rebalance_timeout": session_ms,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    deadline = time.monotonic() + ANSWER_SECONDS
    while (joined := asker.ask(ApiKey.JOIN_GROUP, JOIN, fields)).error_code != 0:
        if joined.error_code not in _COORDINATOR_NOT_READY or time.monotonic() > deadline:
            raise ValueError(f"JoinGroup is answered with error {joined.error_code}")
        asker.ask(ApiKey.FIND_COORDINATOR, FIND, {"key": group})
        time.sleep(APART_SECONDS)
    assignment = {"member_id": joined.member_id, "assignment": b"all"}
    fields = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [assignment],
    }
    begun = time.perf_counter()
    synced = asker.ask(ApiKey.SYNC_GROUP, SYNC, fields)
    if synced.error_code != 0:
        raise ValueError(f"SyncGroup is answered with error {synced.error_code}")
    return begun


def _is_empty(asker: Asker, group: str) -> bool:
    (described,) = asker.ask(ApiKey.DESCRIBE_GROUPS, DESCRIBE, {"groups": [group]}).groups
    return not described.members
