"""What is set at run time lies over a node's settings, and its parts go by it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.base.ports import Cancellable
from penstock.configs.entry import ConfigSource
from penstock.controller.errors import InvalidConfig
from penstock.controller.metadata import records as r
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.kinds import ResourceType
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.replay import replay
from penstock.controller.resource_config.broker_keys import (
    BROKER_CONFIGS,
    KEY_OF_SETTING,
    REFUSED_BROKER_KEYS,
)
from penstock.controller.resource_config.checked import checked
from penstock.node.dynamic_config import TOPICS_TOGETHER, DynamicConfig
from penstock.node.settings.entries import setting_text
from penstock.node.settings.kafka_names import broker_entries, is_sensitive, read_only_names
from penstock.node.settings.overlay import overlaid
from penstock.node.settings.settings import NodeSettings

EDGES = [-2, -1, 0, 1, 2, 95, 96, 99, 100, 999, 1000, 1023, 1024, 32_767, 32_768, 3_600_000]
EDGES += [edge for bits in (28, 31, 34, 40, 63) for edge in (2**bits - 1, 2**bits, 2**bits + 1)]
WORDS = [
    "CreateTime",
    "true",
    "false",
    "info",
    "debug",
    "lag",
    "off",
    "zstd",
    "delete",
    "all",
    "MIXED",
    "x",
    "",
]

SET = ReplicaSetId(0)


class Soon:
    """What is asked for runs when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        self.waiting.append(callback)
        return self

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        raise AssertionError(delay_ms, callback)

    def cancel(self) -> None:
        raise AssertionError("nothing is cancelled")

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


class World:
    """A process that follows a metadata log."""

    def __init__(self, settings: NodeSettings | None = None, *, is_broker: bool = True) -> None:
        self.soon = Soon()
        static = settings or NodeSettings()
        self.image = ClusterImage(defaults=static.topic)
        self.image.features[METADATA] = 2
        self.dynamic = DynamicConfig(static, self.image, self.soon, is_broker=is_broker)

    def set(self, name: str, key: str, value: str | None) -> None:
        self.replay(
            r.ConfigChanged(
                resource_type=ResourceType.BROKER, resource_name=name, key=key, value=value
            )
        )

    def replay(self, *records: r.MetadataRecord) -> None:
        self.image.publish(replay(self.image, records))


def test_the_settings_in_force_follow_the_log_and_go_back() -> None:
    world = World(replace(NodeSettings(), net=replace(NodeSettings().net, connections_max=5)))
    seen: list[int] = []
    world.dynamic.follow(lambda settings: seen.append(settings.net.connections_max))
    world.set("", "max.connections", "7")
    world.set("1", "max.connections", "6")
    world.set("2", "max.connections", "99")
    world.set("", "max.connections", None)
    world.set("1", "max.connections", None)
    assert seen == [5, 7, 6, 5]
    assert world.dynamic.settings.net.connections_max == 5


def test_a_process_that_is_no_broker_goes_by_what_is_set_for_all() -> None:
    world = World(is_broker=False)
    world.set("1", "node.log_level", "debug")
    levels: list[str] = []
    world.dynamic.follow(lambda settings: levels.append(settings.node.log_level))
    world.set("", "node.log_level", "error")
    assert levels == ["info", "error"]


def test_topics_are_brought_to_new_defaults_a_part_in_each_turn() -> None:
    world = World()
    count = TOPICS_TOGETHER + 2
    world.replay(
        r.BrokerRegistered(broker_id=BrokerId(1), host="h", port=1, rack=None),
        r.ReplicaSetCreated(replica_set_id=SET, replicas=as_brokers(1)),
        *(
            r.TopicCreated(
                name=f"t{n}", topic_id=TopicId(n.to_bytes(16, "big")), replica_set_ids=(SET,),
                internal=False,
            )
            for n in range(count)
        ),
        r.ConfigChanged(
            resource_type=ResourceType.TOPIC, resource_name="t0", key="retention.ms", value="3"
        ),
    )  # fmt: skip
    told: list[str] = []
    world.dynamic.on_topic = lambda topic: told.append(topic.name)
    world.set("", "log.retention.ms", "5")
    assert told == []
    world.soon.turn()
    assert 0 < len(told) <= TOPICS_TOGETHER
    while world.soon.waiting:
        world.soon.turn()
    # The one with an override of its own comes to the same as before.
    assert sorted(told) == sorted(f"t{n}" for n in range(1, count))
    topics = world.image.topics_by_name
    assert {topics[name].settings.retention_ms for name in topics} == {3, 5}
    assert all(world.image.topics_by_id[one.topic_id] is one for one in topics.values())
    world.set("1", "min.insync.replicas", "2")
    world.replay(
        r.TopicCreated(
            name="new", topic_id=TopicId(b"n" * 16), replica_set_ids=(SET,), internal=False
        )
    )
    assert topics["new"].settings.min_insync_replicas == 2


def test_an_unknown_key_of_a_newer_release_is_left_out_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.set("", "of.tomorrow", "1")
    assert world.dynamic.settings == NodeSettings()
    assert "of.tomorrow: unknown to this release" in caplog.text
    world.set("1", "max.connections", "7")
    assert world.dynamic.settings.net.connections_max == 7


@pytest.mark.parametrize("key", [key for key, row in BROKER_CONFIGS.items() if row.setting])
def test_what_a_key_takes_is_what_its_setting_takes(key: str) -> None:
    row, built_in = BROKER_CONFIGS[key], NodeSettings()
    section, field = row.setting.split(".")
    now = setting_text(getattr(getattr(built_in, section), field))
    assert overlaid(built_in, {key: now}) == built_in
    adapter, taken = TypeAdapter(NodeSettings), 0
    for text in [*map(str, EDGES), *WORDS]:
        try:
            checked(row, text)
        except InvalidConfig:
            continue
        taken += 1
        value = getattr(getattr(overlaid(built_in, {key: text}), section), field)
        if key not in {"message.max.bytes", "min.insync.replicas"}:  # as topics' own; ADR 0070
            adapter.validate_python({section: {field: value}})
    assert taken > 0


def test_the_rate_of_copies_changes_by_kafkas_name_of_it_and_zero_is_no_rate() -> None:
    key = "leader.replication.throttled.rate"
    world = World()
    world.set("1", key, "7")
    assert world.dynamic.settings.replication.copy_bytes_per_second == 7
    world.set("1", key, None)
    assert world.dynamic.settings.replication.copy_bytes_per_second == 0
    with pytest.raises(InvalidConfig):  # in Kafka nothing would be copied any more
        checked(BROKER_CONFIGS[key], "0")
    follower = BROKER_CONFIGS["follower.replication.throttled.rate"]
    assert checked(follower, "7") == "7"  # Kafka's tool for reassignments sets both
    assert key in follower.no_effect


def test_each_key_has_a_default_that_it_takes_itself() -> None:
    for row in BROKER_CONFIGS.values():
        assert bool(row.setting) != bool(row.no_effect)
        if row.no_effect:
            assert checked(row, row.default) == row.default
            assert "no effect" in row.documentation
    assert not REFUSED_BROKER_KEYS.keys() & BROKER_CONFIGS.keys()


def test_a_setting_has_one_name_under_which_it_changes() -> None:
    entries = {broker_entry.name: broker_entry for broker_entry in broker_entries(NodeSettings())}
    read_only = read_only_names(NodeSettings())
    assert {name for name, one in entries.items() if one.is_read_only} == read_only.keys()
    assert read_only["topic.retention_ms"] == "log.retention.ms"
    assert read_only["auto.create.topics.enable"] == "broker.auto_create_topics"
    assert read_only["node.port"] == ""
    for setting, key in KEY_OF_SETTING.items():
        assert (setting == key) != (read_only.get(setting) == key)


def test_all_names_of_a_setting_tell_what_is_in_force_and_where_it_comes_from() -> None:
    world = World(replace(NodeSettings(), topic=replace(NodeSettings().topic, retention_ms=1)))
    world.set("", "log.retention.ms", "7200000")
    world.set("1", "num.io.threads", "4")
    told = {entry.name: entry for entry in world.dynamic.entries()}
    assert told["log.retention.hours"].value == "2"
    assert told["topic.retention_ms"].value == told["log.retention.ms"].value == "7200000"
    assert [(synonym.value, synonym.source) for synonym in told["log.retention.ms"].synonyms] == [
        ("7200000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("1", ConfigSource.STATIC_BROKER),
        ("604800000", ConfigSource.DEFAULT),
    ]
    assert told["num.io.threads"].source is ConfigSource.DYNAMIC_BROKER
    world.set("", "log.retention.ms", None)
    told = {entry.name: entry for entry in world.dynamic.entries()}
    assert told["log.retention.ms"].source is ConfigSource.STATIC_BROKER


def test_only_values_that_are_secrets_are_hidden() -> None:
    assert is_sensitive("tls.key_password")
    assert not is_sensitive("cluster.secret_file")
    assert not any(broker_entry.is_sensitive for broker_entry in broker_entries(NodeSettings()))
