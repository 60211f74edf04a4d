"""Kafka's Java producer, call by call: its classes in a JVM of their own, driven by py4j.

Kafka's tools decide themselves what a transaction has in it. Here the caller does, with the client
that speaks the second protocol of transactions (KIP-890).
"""

from collections.abc import Mapping
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from harness.maven import jars

_JAVA_OPTIONS = ["-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer"
_FATAL = {
    "ProducerFencedException",
    "InvalidProducerEpochException",
    "OutOfOrderSequenceException",
    "AuthorizationException",
    "UnsupportedVersionException",
    "IllegalStateException",
    "InvalidPidMappingException",
    "InvalidTxnStateException",
}
"""After these a producer can only be closed (Javadoc of KafkaProducer)."""


class JavaError(Exception):
    """What the producer has thrown."""

    def __init__(self, error: Py4JJavaError) -> None:
        thrown = error.java_exception
        names: list[str] = []
        while thrown is not None and len(names) < 5:
            names.append(thrown.getClass().getSimpleName())
            thrown = thrown.getCause()
        super().__init__(" of ".join(names))
        self.names = frozenset(names)

    @property
    def is_fatal(self) -> bool:
        """Whether the producer can only be closed now."""
        return bool(self.names & _FATAL)

    @property
    def is_timeout(self) -> bool:
        """Whether the call may be repeated, its outcome being unknown."""
        return "TimeoutException" in self.names


class JavaMachine:
    """A JVM that has Kafka's clients; `with` ends it."""

    def __init__(self) -> None:
        found = jars("kafka-tools")
        assert not isinstance(found, str), found
        port = launch_gateway(
            classpath=":".join(str(jar) for jar in found),
            javaopts=_JAVA_OPTIONS,
            die_on_exit=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    def __enter__(self) -> "JavaMachine":
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.shutdown()

    def producer(self, settings: Mapping[str, str]) -> "JavaProducer":
        """Return a new producer of strings."""
        properties = self._gateway.jvm.java.util.Properties()
        own = {"key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}
        for key, value in {**own, **settings}.items():
            properties.setProperty(key, value)
        kafka = self._gateway.jvm.org.apache.kafka.clients.producer
        return JavaProducer(kafka.KafkaProducer(properties), kafka.ProducerRecord)


class JavaProducer:
    """A transactional producer. Every call raises JavaError."""

    def __init__(self, producer: Any, record: Any) -> None:
        self._producer = producer
        self._record = record

    def init(self) -> None:
        """Begin as the only one of its transactional id."""
        self._call("initTransactions")

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("beginTransaction")

    def send(self, topic: str, partition: int, value: str) -> None:
        """Send a record; a failure is told by `commit`."""
        self._call("send", self._record(topic, partition, None, value))

    def flush(self) -> None:
        """Wait until all records have their outcome."""
        self._call("flush")

    def commit(self) -> None:
        """Commit."""
        self._call("commitTransaction")

    def abort(self) -> None:
        """Abort."""
        self._call("abortTransaction")

    def close(self) -> None:
        """End it without waiting for anything."""
        self._call("close", self._duration_zero())

    def _duration_zero(self) -> Any:
        return self._producer.getClass().forName("java.time.Duration").getField("ZERO").get(None)

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            getattr(self._producer, name)(*arguments)
        except Py4JJavaError as error:
            raise JavaError(error) from None
