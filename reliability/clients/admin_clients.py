"""Clients that create, delete, change and read topics all the time, and a judge of the answers.

Each client is a thread with a connection of its own to one broker. It never repeats a request: one
that got no answer stays open in the history, as the second attempt could meet the first one's
effect. What they did is checked for linearizability (`simulator.history.linearizability`),
topic by topic; a name is used for a while and then never again, which keeps each history short.
"""

import itertools
import random
import threading
import time
from collections.abc import Hashable, Sequence

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.history.administration import AdminHistory
from simulator.history.controllers import (
    AlterConfig,
    ControllerModel,
    CreateTopic,
    DeleteTopic,
    ReadConfig,
    ReadTopic,
    TopicSeen,
)
from simulator.history.linearizability import Judgement, Recorder, check_linearizable

CONFIG = "retention.ms"
PARTITIONS = 1
REQUESTS_PER_NAME = 60
TIMEOUT_MS = 5_000
RETRY_SECONDS = 0.2
JOIN_SECONDS = 120.0
_TOPIC_RESOURCE = 2
_SET = 0


class AdminClients:
    """One client for each address. `start`, break things, `finish`."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        requests_per_second: float = 5.0,
        stale_seconds_max: float = 0.0,
        prefix: str = "admin",
        seed: int = 1,
    ) -> None:
        """`stale_seconds_max`: how far behind a broker's copy of the metadata may be."""
        self._is_done = threading.Event()
        self._pause_seconds = 1 / requests_per_second
        self._names = _Names(prefix)
        self._recorder = _LockedRecorder()
        self._clients = [
            threading.Thread(
                target=self._run,
                args=(address, random.Random(f"{seed}-{address}"), int(stale_seconds_max * 1e9)),
                daemon=True,
            )
            for address in addresses
        ]

    def start(self) -> None:
        """Begin to ask."""
        for client in self._clients:
            client.start()

    def finish(self) -> tuple[Judgement, int]:
        """Ask no more; returns the judgement and how many operations were answered."""
        self._is_done.set()
        for client in self._clients:
            client.join(JOIN_SECONDS)
        history = self._recorder.history()
        answered = sum(one.end_ns is not None for one in history)
        return check_linearizable(history, ControllerModel()), answered

    def _run(self, address: str, chooser: random.Random, stale_ns_max: int) -> None:
        settings = ClientSettings(
            bootstrap=address, connect_timeout_ms=1000, request_timeout_ms=TIMEOUT_MS
        )
        host, _, port = address.rpartition(":")
        history = AdminHistory(self._recorder, address, stale_ns_max=stale_ns_max)
        while not self._is_done.is_set():
            try:
                connection = Connection(host, int(port), settings)
                try:
                    while not self._is_done.wait(self._pause_seconds * chooser.uniform(0.5, 1.5)):
                        _ask(connection, history, self._names.current(), chooser)
                finally:
                    connection.close()
            except ClientError:
                self._is_done.wait(RETRY_SECONDS)


class _Names:
    """The topic that everybody works on at the moment."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._uses = itertools.count()

    def current(self) -> str:
        return f"{self._prefix}-{next(self._uses) // REQUESTS_PER_NAME}"


class _LockedRecorder(Recorder):
    """Shared by threads: numbers are given one at a time."""

    def __init__(self) -> None:
        super().__init__(time.monotonic_ns)
        self._lock = threading.Lock()

    def began(self, client: str, key: Hashable, call: Hashable) -> int:
        with self._lock:
            return super().began(client, key, call)


def _ask(connection: Connection, history: AdminHistory, topic: str, chooser: random.Random) -> None:
    """Send one request and note its answer; the connection is left to its owner when it breaks."""
    match chooser.randrange(5):
        case 0:
            number = history.began(topic, CreateTopic(PARTITIONS))
            history.changed(number, _create(connection, topic))
        case 1:
            number = history.began(topic, DeleteTopic())
            history.changed(number, _delete(connection, topic))
        case 2:
            value = str(chooser.randrange(1, 1 << 30))
            number = history.began(topic, AlterConfig(CONFIG, value))
            history.changed(number, _alter(connection, topic, value))
        case 3:
            number = history.began(topic, ReadTopic())
            history.read(number, *_describe(connection, topic))
        case _:
            number = history.began(topic, ReadConfig(CONFIG))
            history.read(number, *_read_config(connection, topic))


def _create(connection: Connection, topic: str) -> int:
    wanted = {
        "name": topic,
        "num_partitions": PARTITIONS,
        "replication_factor": -1,
        "assignments": [],
        "configs": [],
    }
    fields = {"topics": [wanted], "timeout_ms": TIMEOUT_MS, "validate_only": False}
    (found,) = connection.call(ApiKey.CREATE_TOPICS, fields, wait_ms=TIMEOUT_MS).topics
    return int(found.error_code)


def _delete(connection: Connection, topic: str) -> int:
    fields = {"topic_names": [topic], "timeout_ms": TIMEOUT_MS}
    (found,) = connection.call(ApiKey.DELETE_TOPICS, fields, wait_ms=TIMEOUT_MS).responses
    return int(found.error_code)


def _alter(connection: Connection, topic: str, value: str) -> int:
    change = {"name": CONFIG, "config_operation": _SET, "value": value}
    wanted = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": [change]}
    fields = {"resources": [wanted], "validate_only": False}
    answer = connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields, wait_ms=TIMEOUT_MS)
    (found,) = answer.responses
    return int(found.error_code)


def _describe(connection: Connection, topic: str) -> tuple[int, TopicSeen | None]:
    fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    (found,) = connection.call(ApiKey.METADATA, fields).topics
    if found.error_code != ErrorCode.NONE:
        return int(found.error_code), None
    return 0, TopicSeen(str(found.topic_id), len(found.partitions))


def _read_config(connection: Connection, topic: str) -> tuple[int, str | None]:
    """Return the error code, and the value where the topic itself has one."""
    wanted = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic}
    fields = {
        "resources": [{**wanted, "configuration_keys": [CONFIG]}],
        "include_documentation": False,
    }
    (found,) = connection.call(ApiKey.DESCRIBE_CONFIGS, fields).results
    own = [config.value for config in found.configs if config.config_source == 1]
    return int(found.error_code), own[0] if own else None
