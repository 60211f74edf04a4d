"""The table of topic configurations."""

import pytest

from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config.entry import ConfigSource
from penstock.controller.topic_config.refused import REFUSED_KEYS
from penstock.controller.topic_config.table import (
    TOPIC_CONFIGS,
    TopicSettings,
    check_override,
    describe,
    resolve,
)


@pytest.mark.parametrize("key", TOPIC_CONFIGS)
def test_default_of_every_key_is_a_valid_value_of_it(key: str) -> None:
    default = TOPIC_CONFIGS[key].value_in(TopicSettings())
    assert check_override(key, default) == default
    assert resolve({key: default}, TopicSettings()) == TopicSettings()


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "+05", "5"),
        ("retention.bytes", str(2**63 - 1), str(2**63 - 1)),
        ("compression.type", "zstd", "zstd"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("cleanup.policy", " delete , delete", "delete"),
        ("min.insync.replicas", "32767", "32767"),
    ],
)
def test_values_are_kept_in_one_spelling(key: str, value: str, kept: str) -> None:
    assert check_override(key, value) == kept


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "1.5"),
        ("retention.ms", "٣"),
        ("retention.ms", str(2**63)),
        ("retention.ms", "9" * 30),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", str(2**31)),
        ("compression.type", "LZ4"),
        ("message.timestamp.type", "logappendtime"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,compact"),
        ("cleanup.policy", "shred"),
    ],
)
def test_value_out_of_bounds_is_refused_with_its_key(key: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=key):
        check_override(key, value)


@pytest.mark.parametrize("key", REFUSED_KEYS)
def test_key_without_effect_is_refused_with_the_reason(key: str) -> None:
    with pytest.raises(InvalidConfig, match="leave it out"):
        check_override(key, "1")


def test_overrides_win_over_the_defaults_of_the_node() -> None:
    node = TopicSettings(retention_ms=5, compression_type="gzip")
    topic = resolve({"retention.ms": "7", "message.timestamp.type": "LogAppendTime"}, node)
    assert (topic.retention_ms, topic.compression_type) == (7, "gzip")
    assert topic.is_log_append_time
    assert not node.is_log_append_time
    assert resolve({}, node) is node


def test_description_tells_where_each_value_comes_from() -> None:
    node = TopicSettings(retention_bytes=9)
    entries = {one.name: one for one in describe({"retention.ms": "7"}, node)}
    assert entries.keys() == TOPIC_CONFIGS.keys()
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC
    assert [one[:2] for one in entries["retention.ms"].synonyms] == [
        ("retention.ms", "7"),
        ("log.retention.ms", "604800000"),
    ]
    assert entries["retention.bytes"].source == ConfigSource.STATIC_BROKER
    assert entries["retention.bytes"].value == "9"
    assert entries["compression.type"].source == ConfigSource.DEFAULT
    assert all(one.documentation and not one.is_sensitive for one in entries.values())
