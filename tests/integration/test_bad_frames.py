"""Twenty thousand bad frames: no unhandled error, no memory, and no harm to anybody else."""

import contextlib
import random
import socket
import struct
from pathlib import Path

import pytest
from benchmarks.harness.node import NodeProcess
from benchmarks.harness.workload import create_topic

from tests.integration.clients import acked, send

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
FRAMES = 20_000
FRAMES_PER_CONNECTION = 20
GROWTH_BYTES_MAX = 32 << 20
ANY_CONNECTIONS = {"net": {"connections_per_address_max": 0, "connection_rate_per_address_max": 0}}


def bad_frame(chooser: random.Random) -> bytes:
    """Return a frame that is wrong in one of the ways a client or an attacker can make it."""
    key, version = chooser.randrange(0, 92), chooser.randrange(0, 18)
    header = struct.pack(">hhih", key, version, chooser.getrandbits(31), -1)
    body = chooser.randbytes(chooser.randrange(0, 120))
    kind = chooser.randrange(6)
    if kind == 0:  # noise behind a plausible header
        frame = header + body
    elif kind == 1:  # cut in the middle of the header
        frame = header[: chooser.randrange(0, len(header))]
    elif kind == 2:  # an array that claims two thousand million elements
        frame = header + b"\x7f\xff\xff\xff" + body
    elif kind == 3:  # a compact length and tagged fields without end
        frame = header + b"\xff\xff\xff\xff\x0f" * chooser.randrange(1, 9)
    elif kind == 4:  # a negative or enormous frame length
        return struct.pack(">i", chooser.choice([-1, -(2**31), 2**31 - 1, 0])) + header
    else:  # an unknown key
        frame = struct.pack(">hhih", chooser.choice([-1, 999, 32767]), 0, 1, -1) + body
    return struct.pack(">i", len(frame)) + frame


def throw(port: int, frames: list[bytes]) -> int:
    """Send frames over one connection until it is closed on us; return how many were sent."""
    sent = 0
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as thrown:
        thrown.settimeout(0.002)
        for frame in frames:
            thrown.sendall(frame)
            sent += 1
            with contextlib.suppress(TimeoutError):
                if not thrown.recv(65536):
                    break
    return sent


def test_twenty_thousand_bad_frames_harm_nobody(tmp_path: Path) -> None:
    chooser = random.Random(1)
    with NodeProcess(tmp_path, settings=ANY_CONNECTIONS) as node:
        create_topic(node.bootstrap, "unharmed", 1)
        throw(node.port, [bad_frame(chooser) for _ in range(FRAMES_PER_CONNECTION)])
        before = node.memory_bytes()
        sent = checked = 0
        while sent < FRAMES:
            sent += throw(node.port, [bad_frame(chooser) for _ in range(FRAMES_PER_CONNECTION)])
            if sent - checked > FRAMES // 5:
                assert acked(send(node.bootstrap, "unharmed", [b"ok"])) == [b"ok"]
                checked = sent
        assert node.is_running
        assert node.memory_bytes() - before < GROWTH_BYTES_MAX
        assert "Traceback" not in node.log_tail(100_000)
