"""Programs of Kafka's that run until they are killed, each in a small JVM of its own.

They are `benchmarks.parts.java_servers.JavaServer`: started, killed and started again at will.
"""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.parts.java_servers import JavaServer
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
