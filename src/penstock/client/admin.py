"""Topics, settings and offsets: administration for operators.

The idea: one topic or resource per call, so that an error belongs to it. If a connection breaks
after a change was sent, the change may have been made: if the next attempt finds it done, that
counts as success.

Source: KIP-4, KIP-195, KIP-204 (DeleteRecords), KIP-339 (incremental configs), KIP-734 (offset of
the largest timestamp). Groups are in `groups.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.client.cluster import Cluster, check_code
from penstock.client.errors import (
    BrokerError,
    BrokerNotFound,
    ConnectionFailed,
    RequestTimedOut,
    TopicNotFound,
    error_code,
)
from penstock.client.told import Judge, wait_until_told
from penstock.client.views import ConfigEntry, OffsetAndTime, TopicView
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3
"""Special times of `list_offsets`; any other is ms since 1970."""

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
RESOURCE_NAMES = {
    TOPIC_RESOURCE: "topic",
    BROKER_RESOURCE: "broker",
    METRICS_RESOURCE: "client-metrics",
    GROUP_RESOURCE: "group",
}
"""As they are written on a command line."""
ALL_BROKERS = ""
"""As the name of a broker resource: what is set for all brokers."""
BROKER_DEFAULT = -1
"""Partition count and replication factor are taken from the broker's settings."""

_SET, _DELETE = 0, 1
_CONFIG_SOURCES = {1: "topic", 2: "broker", 3: "cluster", 4: "settings", 5: "default"}
_CONFIG_SOURCES |= {7: "client-metrics", 8: "group"}
_ANY_REPLICA = -1


class Admin:
    """Administration through a `Cluster`, which the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_topics(self, *, with_internal: bool = False) -> list[TopicView]:
        """Return all topics by name."""
        topics = self._cluster.describe().topics
        return [
            topics[name] for name in sorted(topics) if with_internal or not topics[name].is_internal
        ]

    def describe_topic(self, name: str) -> TopicView:
        """Ask a broker for a topic. Raises TopicNotFound."""
        self._cluster.forget(name)
        return self._cluster.topic(name)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic, and return when brokers know of it. Raises BrokerError.

        Waits for all brokers that answer, within the bounds of `told.py`.
        """
        entries = [{"name": key, "value": value} for key, value in (configs or {}).items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replication_factor,
            "configs": entries,
        }
        fields = {"topics": [topic], "validate_only": validate_only}
        self._change_topic(
            ApiKey.CREATE_TOPICS, fields, name, already_done=ErrorCode.TOPIC_ALREADY_EXISTS
        )
        if not validate_only:
            self._wait(name, lambda told: told is not None)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and return when no broker knows of it any more.

        Raises TopicNotFound, BrokerError.
        """
        self._change_topic(
            ApiKey.DELETE_TOPICS,
            {"topic_names": [name]},
            name,
            already_done=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        self._wait(name, lambda told: told is None)

    def create_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions, and return when brokers know of them.

        Raises TopicNotFound, BrokerError.
        """
        topic = {"name": name, "count": total, "assignments": None}
        self._change_topic(ApiKey.CREATE_PARTITIONS, {"topics": [topic]}, name, already_done=None)
        self._wait(name, lambda told: told is not None and len(told.partitions) >= total)

    def _wait(self, topic: str, is_told: Judge) -> None:
        """Wait until brokers know of a change. A late broker is no failure: the change is made."""
        wait_until_told(self._cluster, topic, is_told)

    def _change_topic(
        self,
        api_key: ApiKey,
        fields: dict[str, Any],
        name: str,
        *,
        already_done: ErrorCode | None,
    ) -> None:
        timeout_ms = self._cluster.settings.request_timeout_ms
        fields["timeout_ms"] = timeout_ms

        def attempt() -> None:
            connection = self._cluster.controller_connection()
            answer = connection.call(api_key, fields, wait_ms=timeout_ms)
            (result,) = _results(answer)
            message = getattr(result, "error_message", None)
            _check_topic(result.error_code, f"{api_key.name} of {name}", message)

        try:
            self._cluster.retry(f"{api_key.name} of {name}", _once(attempt, already_done))
        except BrokerError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise TopicNotFound(name) from error
            raise
        finally:
            self._cluster.forget(name)

    def describe_configs(
        self, name: str, *, resource: int = TOPIC_RESOURCE, with_documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return all settings of a topic, a group or client metrics, or of a broker by its id as
        text, by name. Of ALL_BROKERS only what is set.
        """
        wanted = {"resource_type": resource, "resource_name": name, "configuration_keys": None}
        fields = {"resources": [wanted], "include_documentation": with_documentation}

        def attempt() -> list[ConfigEntry]:
            connection = self._resource_connection(resource, name)
            (result,) = connection.call(ApiKey.DESCRIBE_CONFIGS, fields).results
            _check_resource(result, resource, name)
            return sorted(map(_config_entry, result.configs), key=lambda entry: entry.name)

        return self._cluster.retry(f"configuration of {name}", attempt)

    def alter_configs(
        self,
        name: str,
        *,
        set_to: Mapping[str, str] | None = None,
        delete: Sequence[str] = (),
        resource: int = TOPIC_RESOURCE,
        validate_only: bool = False,
    ) -> None:
        """Set some settings and reset others to their defaults, all or none.

        Raises TopicNotFound, BrokerError.
        """
        changes = [
            {"name": key, "config_operation": _SET, "value": value}
            for key, value in (set_to or {}).items()
        ] + [{"name": key, "config_operation": _DELETE, "value": None} for key in delete]
        wanted = {"resource_type": resource, "resource_name": name, "configs": changes}
        fields = {"resources": [wanted], "validate_only": validate_only}

        def attempt() -> None:
            connection = self._resource_connection(resource, name)
            (result,) = connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields).responses
            _check_resource(result, resource, name)

        self._cluster.retry(f"changing the configuration of {name}", attempt)

    def list_config_resources(self, resource: int) -> list[str]:
        """Return what of a type has, or could have, a configuration, by name."""

        def attempt() -> list[str]:
            connection = self._cluster.controller_connection()
            answer = connection.call(ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [resource]})
            check_code(answer.error_code, "what has a configuration")
            return sorted(
                config_resource.resource_name for config_resource in answer.config_resources
            )

        return self._cluster.retry("what has a configuration", attempt)

    def _resource_connection(self, resource: int, name: str) -> Any:
        if resource == BROKER_RESOURCE and name:
            known = [broker.broker_id for broker in self._cluster.describe([]).brokers]
            if int(name) not in known:
                raise BrokerNotFound(int(name), known)
            return self._cluster.connection(int(name))
        return self._cluster.controller_connection()

    def list_offsets(
        self,
        topic: str,
        time_ms: int,
        partitions: Sequence[int] | None = None,
        *,
        is_committed_only: bool = False,
    ) -> dict[int, OffsetAndTime]:
        """Return for each partition the first offset whose record is not older than `time_ms`.

        EARLIEST, LATEST (exclusive: the next to be written) and MAX_TIMESTAMP are special times.
        With `is_committed_only` the log seems to end at its last stable offset.
        Raises TopicNotFound, BrokerError.
        """

        def attempt() -> dict[int, OffsetAndTime]:
            view = self._cluster.topic(topic)
            wanted = range(len(view.partitions)) if partitions is None else partitions
            offsets: dict[int, OffsetAndTime] = {}
            for leader, led in self._by_leader(topic, wanted).items():
                answer = self._ask_offsets(leader, topic, time_ms, led, is_committed_only)
                offsets |= _offsets_in(answer, topic, led)
            return {partition: offsets[partition] for partition in wanted}

        return self._cluster.retry(f"offsets of {topic}", attempt)

    def _ask_offsets(
        self, leader: int, topic: str, time_ms: int, partitions: Sequence[int], is_committed: bool
    ) -> Any:
        wanted = [{"partition_index": number, "timestamp": time_ms} for number in partitions]
        return self._cluster.connection(leader).call(
            ApiKey.LIST_OFFSETS,
            {
                "replica_id": _ANY_REPLICA,
                "isolation_level": int(is_committed),
                "topics": [{"name": topic, "partitions": wanted}],
            },
        )

    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset in each partition; return the new log starts.

        LATEST (-1) as offset deletes all that is readable. Raises TopicNotFound, BrokerError.
        """

        def attempt() -> dict[int, int]:
            starts: dict[int, int] = {}
            for leader, led in self._by_leader(topic, list(before)).items():
                part = {partition: before[partition] for partition in led}
                starts |= self._delete_records_at(leader, topic, part)
            return starts

        return self._cluster.retry(f"deleting records of {topic}", attempt)

    def _delete_records_at(
        self, leader: int, topic: str, before: Mapping[int, int]
    ) -> dict[int, int]:
        timeout_ms = self._cluster.settings.request_timeout_ms
        wanted = [
            {"partition_index": number, "offset": offset} for number, offset in before.items()
        ]
        fields = {"topics": [{"name": topic, "partitions": wanted}], "timeout_ms": timeout_ms}
        connection = self._cluster.connection(leader)
        answer = connection.call(ApiKey.DELETE_RECORDS, fields, wait_ms=timeout_ms)
        starts: dict[int, int] = {}
        for result in _partitions(answer):
            check_code(result.error_code, f"deleting records of {topic}-{result.partition_index}")
            starts[result.partition_index] = result.low_watermark
        _check_complete(starts, list(before), topic)
        return starts

    def _by_leader(self, topic: str, partitions: Sequence[int]) -> dict[int, list[int]]:
        led: dict[int, list[int]] = {}
        for partition in partitions:
            led.setdefault(self._cluster.leader(topic, partition), []).append(partition)
        return led


def _once(attempt: Callable[[], None], already_done: ErrorCode | None) -> Callable[[], None]:
    """Count `already_done` as success after an attempt that ended without an answer."""
    is_unknown = False

    def guarded() -> None:
        nonlocal is_unknown
        try:
            attempt()
        except (ConnectionFailed, RequestTimedOut):
            is_unknown = True
            raise
        except (BrokerError, TopicNotFound) as error:
            code = (
                error.code
                if isinstance(error, BrokerError)
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            if not (is_unknown and code is already_done):
                raise

    return guarded


def _results(answer: Any) -> Any:
    """Return the results; the three requests that change topics name them differently."""
    for name in ("topics", "responses", "results"):
        results = getattr(answer, name, None)
        if results is not None:
            return results
    raise AssertionError(answer)


def _check_topic(code: int, what: str, message: str | None) -> None:
    """As `check_code`, but an unknown topic is final: it does not appear by waiting."""
    if error_code(int(code)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound(what.rpartition(" ")[2])
    check_code(code, what, message)


def _check_resource(result: Any, resource: int, name: str) -> None:
    named = name or "default"  # those of all brokers have no name
    what = f"configuration of {RESOURCE_NAMES[resource]} {named}"
    _check_topic(result.error_code, what, result.error_message)


def _partitions(answer: Any) -> list[Any]:
    return [partition for topic in answer.topics for partition in topic.partitions]


def _offsets_in(answer: Any, topic: str, partitions: Sequence[int]) -> dict[int, OffsetAndTime]:
    offsets: dict[int, OffsetAndTime] = {}
    for result in _partitions(answer):
        check_code(result.error_code, f"offsets of {topic}-{result.partition_index}")
        offsets[result.partition_index] = OffsetAndTime(
            offset=result.offset, timestamp_ms=result.timestamp
        )
    _check_complete(offsets, partitions, topic)
    return offsets


def _check_complete(found: Mapping[int, Any], wanted: Sequence[int], topic: str) -> None:
    """Raise BrokerError for a partition that the broker left out: it does not have it."""
    for partition in wanted:
        if partition not in found:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")


def _config_entry(config: Any) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_CONFIG_SOURCES.get(config.config_source, "other"),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=getattr(config, "documentation", None),
    )
