"""What a message costs that waits for its time: processor time of a node, from then on.

    python -m benchmarks.timers_due [--messages 20000] [--body 1000]

    level   in delay level 4, 30 s: read once, and copied to its queue
    timed   with a time of their own that is the same for all, 45 s away at first: written to one or
            two levels more before

Sent one after another by one connection, acknowledged, and then waited for: the time of the node's
process is taken between the last acknowledgement and the last delivery, and that of a node that
waits as long, is looked at as often and has nothing to do is taken off. Beside it how many a core
delivers in a second.
"""

import argparse
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen

from harness.node import NodeProcess
from harness.ports import free_port
from harness.workload import create_topic
from penstock.cli.exit_codes import end_with
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import encode_frame
from penstock.remoting.wire.properties import write_properties

TOPIC, PARTITIONS = "due", 4
LEVEL, TIMED_MS = 4, 45_000
AT_ONCE = 500
"""Unanswered sends."""
UNTIL_SECONDS = 300.0
LOOK_SECONDS = 2.0
"""A page of metrics takes some milliseconds."""
IDLE_LOOKS = 4
DELIVERED = 'penstock_remoting_delayed_total{outcome="delivered"} '


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--body", type=int, default=1_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        settings = {"remoting": {"port": port}}
        with NodeProcess(Path(directory), settings=settings) as node:
            create_topic(node.bootstrap, TOPIC, PARTITIONS, None)
            idle = idle_share(node)
            for name in ("level", "timed"):
                body = b"x" * asked.body
                seconds = measured(node, name, partial(send, port, asked.messages, body), idle)
                each = seconds / asked.messages
                print(
                    f"{name:8}{each * 1e6:8.1f} us of CPU a message {1 / each:10.0f} a core and s"
                )


def idle_share(node: NodeProcess) -> float:
    """Return the CPU seconds that a node takes in a second in which it is only looked at."""
    begun, cpu = time.monotonic(), node.cpu_seconds()
    for _ in range(IDLE_LOOKS):
        delivered(node)
        time.sleep(LOOK_SECONDS)
    return (node.cpu_seconds() - cpu) / (time.monotonic() - begun)


def measured(
    node: NodeProcess, name: str, sends: Callable[[dict[str, str]], int], idle: float
) -> float:
    """Return the CPU seconds from the last acknowledgement of the messages on."""
    before = delivered(node)
    until_ms = int(time.time() * 1_000) + TIMED_MS
    later = {"DELAY": str(LEVEL)} if name == "level" else {"TIMER_DELIVER_MS": str(until_ms)}
    messages = sends(later)
    assert delivered(node) == before, "some are due while others are sent: take fewer"
    begun, cpu = time.monotonic(), node.cpu_seconds()
    while delivered(node) < before + messages:
        time.sleep(LOOK_SECONDS)
        assert time.monotonic() < begun + UNTIL_SECONDS, f"{delivered(node) - before} are delivered"
    return node.cpu_seconds() - cpu - idle * (time.monotonic() - begun)


def delivered(node: NodeProcess) -> int:
    """Return how many were delivered so far."""
    with urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=60) as page:
        text = page.read().decode()
    return next(
        (int(float(line.split()[-1])) for line in text.splitlines() if DELIVERED in line), 0
    )


def send(port: int, messages: int, body: bytes, later: dict[str, str]) -> int:
    """Send so many messages, and wait until each is acknowledged; return how many."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        answers = connection.makefile("rb")
        open_ = 0
        for frame in frames(later, messages, body):
            connection.sendall(frame)
            open_ += 1
            if open_ == AT_ONCE:
                answers.read(int.from_bytes(answers.read(4)))
                open_ -= 1
        for _ in range(open_):
            answers.read(int.from_bytes(answers.read(4)))
    return messages


def frames(later: dict[str, str], messages: int, body: bytes) -> Iterator[bytes]:
    """Yield the frame of each send."""
    for number in range(messages):
        properties = write_properties({"UNIQ_KEY": f"{number:032X}", **later})
        fields = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % PARTITIONS)}
        fields |= {"f": "0", "g": str(int(time.time() * 1_000)), "h": "0", "i": properties}
        fields |= {"j": "0", "k": "false", "m": "false", "n": "set-1"}
        code = RequestCode.SEND_MESSAGE_V2
        yield bytes(encode_frame(Command(code=code, fields=fields, body=body, opaque=number + 1)))


if __name__ == "__main__":
    end_with(main)
