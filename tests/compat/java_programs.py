"""Programs of Kafka's that run until they are killed, each in a small JVM of its own.

They are `benchmarks.parts.java_servers.JavaServer`: started, killed and started again at will.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from benchmarks.parts.java_servers import JavaServer
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_tools import jars_or_skip

JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=error",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.internals.SubscriptionState=warn",
)


def program(project: str, main: str, *arguments: str, log: Path) -> JavaServer:
    """Return a program that is still to be launched; skips the test if its jars are not here.

    `project` is a directory of tests/compat/java, `log` takes what the program prints.
    """
    class_path = ":".join(str(jar) for jar in jars_or_skip(project))
    temporary = f"-Djava.io.tmpdir={log.parent}"
    command = ["java", *JAVA_OPTIONS, temporary, "-cp", class_path, main, *arguments]
    return JavaServer(command, log)


def write_properties(file: Path, values: Mapping[str, object]) -> None:
    """Write a file of Java properties; values are plain words and paths."""
    lines = [f"{key}={value}\n" for key, value in values.items()]
    file.write_text("".join(lines), encoding="utf-8")


def end(server: JavaServer) -> None:
    """Have a program end in order, and wait until it has."""
    os.kill(server.pid, signal.SIGTERM)
    wait_ended(server)


def wait_ended(server: JavaServer) -> None:
    """Wait until a program has ended by itself."""
    assert wait_until(lambda: not server.is_running, UNTIL_SECONDS), server.log_tail(30)


def printed(server: JavaServer) -> str:
    """Return all that a program has printed in all its lives."""
    return server.log.read_text(encoding="utf-8", errors="replace")


def wait_printed(server: JavaServer, text: str, *, after: int = 0) -> int:
    """Wait until a program prints this behind the position `after`; return where it ends.

    Positions are those in `printed`.
    """
    found: list[int] = []

    def is_there_or_never_will_be() -> bool:
        is_running = server.is_running  # before the look: what it printed last is seen
        found[:] = [printed(server).find(text, after)]
        return found[0] >= 0 or not is_running

    wait_until(is_there_or_never_will_be, UNTIL_SECONDS, every_seconds=0.1)
    assert found[0] >= 0, server.log_tail(30)
    return found[0] + len(text)
