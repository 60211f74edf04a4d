"""Applications of Kafka Streams, each in a JVM of its own, driven by py4j.

    lines ─► repartition ─► count in a store with a changelog ─► counts

The count goes by the records' keys, so that no code has to run in the JVM but Kafka's own.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.compat.java_tools import jars_or_skip

ENDING_SECONDS = 20
_JAVA_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class JavaStreams:
    """One instance of the application; `with` closes it, unless it was killed."""

    def __init__(self, source: str, sink: str, settings: Mapping[str, str]) -> None:
        class_path = ":".join(str(jar) for jar in jars_or_skip("kafka-streams"))
        port, self._process = launch_gateway(
            classpath=class_path, javaopts=_JAVA_OPTIONS, die_on_exit=True, return_proc=True
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        self._streams = self._built(source, sink, settings)
        self._streams.start()

    def _built(self, source: str, sink: str, settings: Mapping[str, str]) -> Any:
        jvm = self._gateway.jvm
        kafka = jvm.org.apache.kafka
        properties = jvm.java.util.Properties()
        for key, value in settings.items():
            properties.setProperty(key, value)
        serdes = kafka.common.serialization.Serdes
        words, numbers = serdes.String(), serdes.Long()
        builder = kafka.streams.StreamsBuilder()
        dsl = kafka.streams.kstream
        lines = builder.stream(source, getattr(dsl.Consumed, "with")(words, words))
        again = getattr(dsl.Repartitioned, "with")(words, words)
        store = getattr(dsl.Materialized, "as")("counted")
        counted = lines.repartition(again.withName("words")).groupByKey().count(store)
        produced = getattr(dsl.Produced, "with")(words, numbers)
        counted.toStream().to(sink, produced)
        return kafka.streams.KafkaStreams(builder.build(), properties)

    @property
    def state(self) -> str:
        """The state of the client, such as RUNNING."""
        return str(self._streams.state().toString())

    @property
    def active_tasks(self) -> set[str]:
        """The tasks that its threads process now."""
        return {
            str(task.taskId().toString())
            for thread in self._streams.metadataForLocalThreads()
            for task in thread.activeTasks()
        }

    def close(self) -> None:
        """End it in order: its tasks go to others at once."""
        self._streams.close()
        self._end()

    def kill(self) -> None:
        """End its machine amid what it does."""
        self._process.kill()
        self._ended()

    def _end(self) -> None:
        self._gateway.shutdown()
        self._ended()

    def _ended(self) -> None:
        """Wait for the machine: it ends with its input, which is closed."""
        self._gateway.close()
        self._process.stdin.close()
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "JavaStreams":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.close()


def settings_of(application: str, bootstrap: str, directory: Path) -> dict[str, str]:
    """Return the settings of an instance that goes by the streams protocol (KIP-1071)."""
    return {
        "application.id": application,
        "bootstrap.servers": bootstrap,
        "group.protocol": "streams",
        "state.dir": str(directory),
        "num.stream.threads": "1",
        "commit.interval.ms": "200",
        "statestore.cache.max.bytes": "0",
        "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "consumer.auto.offset.reset": "earliest",
    }
