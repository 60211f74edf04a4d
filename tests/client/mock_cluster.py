"""librdkafka's mock cluster through its C interface: brokers that fail when told to.

It is the one of librdkafka's own test suite: real TCP listeners, real record checks, and errors,
delays and restarts on demand. Source: librdkafka `src/rdkafka_mock.h`.
"""

import ctypes
from pathlib import Path

import confluent_kafka

BROKER_DISCONNECTS = -195
"""ERR__TRANSPORT: the broker closes the connection in place of an answer."""

_PACKAGE = Path(confluent_kafka.__file__).parent
_PRODUCER = 0


def _load() -> ctypes.CDLL:
    (path,) = (_PACKAGE.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    library = ctypes.CDLL(str(path))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """Some brokers in this process, each with an id from 1 on."""

    def __init__(self, brokers: int = 3) -> None:
        self._library = _load()
        self._brokers = brokers
        text = ctypes.create_string_buffer(512)
        conf = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, 512)
        self._client = ctypes.c_void_p(self._library.rd_kafka_new(_PRODUCER, conf, text, 512))
        assert self._client.value, text.value
        new = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        self._cluster = ctypes.c_void_p(new)

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    @property
    def bootstrap(self) -> str:
        found: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return found.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        self._check(
            self._library.rd_kafka_mock_topic_create(
                self._cluster, name.encode(), partitions, self._brokers
            )
        )

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        """-1 leaves the partition without one."""
        self._check(
            self._library.rd_kafka_mock_partition_set_leader(
                self._cluster, topic.encode(), partition, broker
            )
        )

    def fail_next(self, api_key: int, *codes: int) -> None:
        """Answer the next requests of a kind, at any broker, with these codes."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(api_key), ctypes.c_size_t(len(codes)), array
        )

    def forget_failures(self, api_key: int) -> None:
        """Drop what `fail_next` said and was not used up."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, ctypes.c_int16(api_key))

    def delay_next(self, api_key: int, broker: int, delay_ms: int) -> None:
        """Carry out the next request of a kind at a broker, and answer it late."""
        self._check(
            self._library.rd_kafka_mock_broker_push_request_error_rtts(
                self._cluster, broker, ctypes.c_int16(api_key), ctypes.c_size_t(1),
                ctypes.c_int(0), ctypes.c_int(delay_ms),
            )
        )  # fmt: skip

    def take_down(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_down(self._cluster, broker))

    def bring_up(self, broker: int) -> None:
        self._check(self._library.rd_kafka_mock_broker_set_up(self._cluster, broker))

    @staticmethod
    def _check(code: int) -> None:
        assert code == 0, code
