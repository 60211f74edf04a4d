"""A node inside the test process that remoting clients reach, and RocketMQ's stock client.

No setting opens a listener for these clients yet: the port here is the test's own.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.net.listener import Endpoint, Listener
from penstock.remoting.dispatch import RemotingDispatcher
from penstock.remoting.front import RemotingFront
from tests.compat.java_tools import jars_or_skip
from tests.live_node import LiveNode

SOURCE = Path(__file__).with_name("RemotingClients.java")
CLIENT_SECONDS = 120


@contextmanager
def remoting_port(node: LiveNode) -> Iterator[str]:
    """Open a port for remoting clients of a node; yields its address."""
    listener = node.call(lambda: _open(node))
    try:
        yield f"127.0.0.1:{listener.port}"
    finally:
        node.run(listener.stop(0.0))


def _open(node: LiveNode) -> Listener:
    listener: Listener

    def endpoint_of(_: object) -> tuple[str, int]:
        return "127.0.0.1", listener.port

    front = RemotingFront(node.broker, node.front.spawn, endpoint_of)
    dispatcher = RemotingDispatcher(front)
    limits = node.node._settings.net
    ends = [Endpoint("127.0.0.1", 0, "remoting")]
    listener = Listener(ends, limits, dispatcher.on_frame, on_close=front.on_close)
    listener.start()
    return listener


def client(home: Path, *words: object) -> list[dict[str, Any]]:
    """Run the stock client with these words; return what it has told."""
    class_path = ":".join(map(str, jars_or_skip("rocketmq")))
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-Dfile.encoding=UTF-8", f"-Duser.home={home}", "-cp", class_path, str(SOURCE)]
    done = subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]
