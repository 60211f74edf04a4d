"""The table of topic configurations."""

import pytest

from penstock.base.ids import ReplicaSetId
from penstock.configs.entry import ConfigSource
from penstock.configs.refused import REFUSED_KEYS
from penstock.controller.errors import InvalidConfig
from penstock.controller.topic_config.describe import broker_defaults, describe
from penstock.controller.topic_config.table import (
    SINCE_LEVEL_2,
    TOPIC_CONFIGS,
    TopicSettings,
    check_override,
    needs_level_2,
    resolve,
    take_facts,
)


@pytest.mark.parametrize("key", TOPIC_CONFIGS)
def test_default_of_every_key_is_a_valid_value_of_it(key: str) -> None:
    default = TOPIC_CONFIGS[key].value_in(TopicSettings())
    assert check_override(key, default, level=2) == default
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
        ("cleanup.policy", "delete,compact", "delete,compact"),
        ("cleanup.policy", "", ""),
        ("retention.bytes", "-100", "-1"),
        ("max.message.bytes", "2147483647", "2147483647"),
        ("segment.bytes", " +1048576 ", "1048576"),
        ("preallocate", "True", "true"),
        ("compression.gzip.level", "-1", "-1"),
        ("compression.lz4.level", "17", "17"),
        ("compression.zstd.level", "-131072", "-131072"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "-0.0", "0.0"),
        ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
        ("follower.replication.throttled.replicas", "*", "*"),
        ("min.insync.replicas", "32767", "32767"),
    ],
)
def test_values_are_kept_in_one_spelling(key: str, value: str, kept: str) -> None:
    assert check_override(key, value, level=2) == kept


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
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "Delete"),
        ("segment.bytes", "1048575"),
        ("segment.ms", "0"),
        ("flush.messages", "0"),
        ("max.compaction.lag.ms", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("preallocate", "yes"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("local.retention.ms", "-3"),
        ("leader.replication.throttled.replicas", "none"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("cleanup.policy", "shred"),
    ],
)
def test_value_out_of_bounds_is_refused_with_its_key(key: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=key):
        check_override(key, value, level=2)


@pytest.mark.parametrize("key", REFUSED_KEYS)
def test_key_that_kafka_has_no_more_is_refused_with_the_reason(key: str) -> None:
    with pytest.raises(InvalidConfig, match="leave it out"):
        check_override(key, "1", level=2)


def test_overrides_win_over_the_defaults_of_the_node() -> None:
    node = TopicSettings(retention_ms=5, compression_type="gzip")
    topic = resolve({"retention.ms": "7", "message.timestamp.type": "LogAppendTime"}, node)
    assert (topic.retention_ms, topic.compression_type) == (7, "gzip")
    assert topic.is_log_append_time
    assert not node.is_log_append_time
    assert resolve({}, node) is node


def test_description_tells_where_each_value_comes_from() -> None:
    node = TopicSettings(retention_bytes=9)
    entries = {one.name: one for one in describe({"retention.ms": "7"}, broker_defaults(node))}
    assert entries.keys() == TOPIC_CONFIGS.keys()
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC
    assert [synonym[:2] for synonym in entries["retention.ms"].synonyms] == [
        ("retention.ms", "7"),
        ("log.retention.hours", "168"),
    ]
    assert entries["retention.bytes"].source == ConfigSource.STATIC_BROKER
    assert entries["retention.bytes"].value == "9"
    assert entries["compression.type"].source == ConfigSource.DEFAULT
    assert all(entry.documentation and not entry.is_sensitive for entry in entries.values())


KAFKA_DEFAULTS = """
cleanup.policy=delete compression.gzip.level=-1 compression.lz4.level=9
compression.type=producer compression.zstd.level=3 delete.retention.ms=86400000
file.delete.delay.ms=60000 flush.messages=9223372036854775807 flush.ms=9223372036854775807
follower.replication.throttled.replicas= index.interval.bytes=4096
leader.replication.throttled.replicas= local.retention.bytes=-2 local.retention.ms=-2
max.compaction.lag.ms=9223372036854775807 max.message.bytes=1048588
message.timestamp.after.max.ms=3600000 message.timestamp.before.max.ms=9223372036854775807
message.timestamp.type=CreateTime min.cleanable.dirty.ratio=0.5 min.compaction.lag.ms=0
min.insync.replicas=1 preallocate=false remote.log.copy.disable=false
remote.log.delete.on.disable=false remote.storage.enable=false retention.bytes=-1
retention.ms=604800000 segment.bytes=1073741824 segment.index.bytes=10485760 segment.jitter.ms=0
segment.ms=604800000 unclean.leader.election.enable=false
"""
"""As `LogConfig` of Kafka 4.2.0 prints them."""


def test_every_key_of_kafka_is_there_with_kafkas_default() -> None:
    expected = dict(pair.split("=") for pair in KAFKA_DEFAULTS.split())
    told = {one.name: one.value for one in describe({}, broker_defaults(TopicSettings()))}
    assert len(expected) == 33
    assert {key: text for key, text in told.items() if not key.startswith("penstock.")} == expected


def test_a_key_without_effect_changes_no_setting_and_is_given_back() -> None:
    key = "segment.bytes"
    assert resolve({key: "1048576"}, TopicSettings()) == TopicSettings()
    (entry,) = (
        one
        for one in describe({key: "1048576"}, broker_defaults(TopicSettings()))
        if one.name == key
    )
    assert (entry.value, entry.source) == ("1048576", ConfigSource.DYNAMIC_TOPIC)
    assert [synonym[:2] for synonym in entry.synonyms] == [
        (key, "1048576"),
        ("log.segment.bytes", "1073741824"),
    ]
    assert "no effect" in entry.documentation


@pytest.mark.parametrize(
    ("policy", "deletes"),
    [("delete", True), ("compact", False), ("compact,delete", True), ("", False)],
)
def test_only_a_policy_with_delete_deletes(policy: str, deletes: bool) -> None:
    assert resolve({"cleanup.policy": policy}, TopicSettings()).deletes is deletes


def test_unclean_election_is_taken_where_the_sets_have_it_so_and_is_not_kept() -> None:
    overrides = {"unclean.leader.election.enable": "true", "retention.ms": "7"}
    take_facts(overrides, {ReplicaSetId(1): True}, has_tier=False)
    assert overrides == {"retention.ms": "7"}
    with pytest.raises(InvalidConfig, match="penstock set unclean 2 on"):
        take_facts(
            {"unclean.leader.election.enable": "true"},
            {ReplicaSetId(1): True, ReplicaSetId(2): False},
            has_tier=False,
        )
    with pytest.raises(InvalidConfig, match="penstock set unclean 1 off"):
        take_facts(
            {"unclean.leader.election.enable": "false"}, {ReplicaSetId(1): True}, has_tier=False
        )


def test_unclean_election_is_told_as_the_sets_have_it() -> None:
    name = "unclean.leader.election.enable"
    told = {
        one.name: one
        for one in describe({}, broker_defaults(TopicSettings()), is_unclean_allowed=True)
    }
    assert told[name].value == "true"
    assert [synonym.value for synonym in told[name].synonyms] == ["true", "false"]


@pytest.mark.parametrize("has_tier", [False, True])
def test_the_tier_may_be_left_out_of_everywhere(has_tier: bool) -> None:
    overrides = {"remote.storage.enable": "false"}
    take_facts(overrides, {}, has_tier=has_tier)
    assert overrides == {"remote.storage.enable": "false"}


def test_topics_are_copied_where_the_controllers_say_so() -> None:
    overrides = {"remote.storage.enable": "true"}
    take_facts(overrides, {}, has_tier=True)
    assert overrides == {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfig, match=r"controller\.tiered_topics is off"):
        take_facts(overrides, {}, has_tier=False)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_topics_are_not_copied(policy: str) -> None:
    overrides = {"remote.storage.enable": "true", "cleanup.policy": policy}
    with pytest.raises(InvalidConfig, match="compacted"):
        take_facts(overrides, {}, has_tier=True)


def test_lags_of_compaction_must_fit_each_other() -> None:
    take_facts({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, {}, has_tier=False)
    with pytest.raises(InvalidConfig, match="more than the maximum"):
        take_facts({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, {}, has_tier=False)


def test_what_an_older_release_would_stop_at_needs_the_next_level() -> None:
    assert "segment.bytes" in SINCE_LEVEL_2
    assert "retention.ms" not in SINCE_LEVEL_2
    assert needs_level_2("segment.bytes", "1048576")
    assert needs_level_2("cleanup.policy", "compact")
    assert not needs_level_2("cleanup.policy", "delete")
    assert needs_level_2("max.message.bytes", str(65 << 20))
    assert not needs_level_2("max.message.bytes", str(64 << 20))


@pytest.mark.parametrize(
    ("key", "text"), [("segment.bytes", "1048576"), ("cleanup.policy", "compact")]
)
def test_what_an_earlier_release_would_stop_at_is_refused_below_its_level(
    key: str, text: str
) -> None:
    with pytest.raises(InvalidConfig, match="penstock cluster upgrade"):
        check_override(key, text, level=1)
    assert check_override(key, text, level=2) == text


def test_what_every_release_reads_is_taken_at_the_first_level() -> None:
    assert check_override("cleanup.policy", "delete", level=1) == "delete"
    assert check_override("retention.ms", "5", level=1) == "5"
    assert check_override("unclean.leader.election.enable", "true", level=1) == "true"
