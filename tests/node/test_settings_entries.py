from dataclasses import replace

from penstock.configs.entry import ConfigEntry, ConfigSource
from penstock.controller.resource_config.broker_keys import BROKER_CONFIGS
from penstock.node.settings.config import NodeConfig
from penstock.node.settings.entries import settings_entries
from penstock.node.settings.kafka_names import broker_entries, read_only_names
from penstock.node.settings.settings import NodeSettings, settings_schema


def test_every_setting_is_there_once_under_its_dotted_name() -> None:
    names = [name for name, _, _ in settings_entries(NodeSettings())]
    expected = [f"{section}.{key}" for section, keys in settings_schema().items() for key in keys]
    assert names == expected


def test_values_stand_as_they_would_in_a_file() -> None:
    settings = NodeSettings()
    node = replace(settings.node, data_directories=("a", "b"), port=1234)
    values = {name: value for name, value, _ in settings_entries(replace(settings, node=node))}
    assert values["node.data_directories"] == "a,b"
    assert values["node.port"] == "1234"
    assert values["log.flush_policy"] == "sync"
    assert values["broker.auto_create_topics"] == "false"


def test_every_setting_says_what_it_means() -> None:
    """Clients that ask for documentation got none, and `config describe` an empty column."""
    said = {name: about for name, _, about in settings_entries(NodeSettings())}
    assert [name for name, about in said.items() if not about] == []
    assert said["node.port"] == "Port of the Kafka listener."
    assert not any("\n" in about for about in said.values())


def test_kafkas_names_say_what_the_settings_say() -> None:
    settings = NodeSettings()
    settings = replace(settings, topic=replace(settings.topic, retention_ms=90_000))
    entries = {broker_entry.name: broker_entry for broker_entry in broker_entries(settings)}
    told = {name: (one.value, int(one.source)) for name, one in entries.items()}
    assert told["topic.retention_ms"] == ("90000", 4)
    assert told["log.retention.ms"] == ("90000", 4)
    assert told["log.retention.minutes"] == (None, 4)
    assert told["num.partitions"] == ("1", 5)
    assert told["min.insync.replicas"] == ("1", 5)
    assert told["log.segment.bytes"] == ("1073741824", 5)
    assert "has no effect" in entries["log.segment.bytes"].documentation.lower()
    assert all(entry.documentation for entry in entries.values())
    changeable = {entry.name for entry in entries.values() if not entry.is_read_only}
    assert changeable == BROKER_CONFIGS.keys()


def _addresses(node: NodeConfig) -> dict[str, ConfigEntry]:
    entries = broker_entries(replace(NodeSettings(), node=node))
    return {one.name: one for one in entries if one.name in {"listeners", "advertised.listeners"}}


def test_listeners_are_told_under_kafkas_names() -> None:
    """kafka-python's own tests ask a broker for `advertised.listeners`."""
    node = NodeConfig(
        host="10.0.0.1",
        port=9192,
        advertised_host="log-1.example.net",
        advertised_port=443,
        listeners=("INSIDE://[fd00::1]:9095", "OUTSIDE://10.0.0.2:9096"),
        advertised_listeners=("OUTSIDE://log-1.example.net:9443",),
    )
    told = _addresses(node)
    assert told["listeners"].value == (
        "kafka://10.0.0.1:9192,INSIDE://[fd00::1]:9095,OUTSIDE://10.0.0.2:9096"
    )
    assert told["advertised.listeners"].value == (
        "kafka://log-1.example.net:443,INSIDE://[fd00::1]:9095,OUTSIDE://log-1.example.net:9443"
    )
    assert {one.source for one in told.values()} == {ConfigSource.STATIC_BROKER}
    assert all(one.is_read_only and not one.is_sensitive for one in told.values())


def test_listeners_where_nothing_is_set_are_the_built_in_ones() -> None:
    told = _addresses(NodeConfig())
    assert told["listeners"].value == "kafka://127.0.0.1:9092"
    assert {one.source for one in told.values()} == {ConfigSource.DEFAULT}
    assert [one.source for one in told["listeners"].synonyms] == [ConfigSource.DEFAULT]


def test_listeners_can_not_be_set_while_a_broker_runs() -> None:
    names = read_only_names(NodeSettings())
    assert (names["listeners"], names["advertised.listeners"]) == ("", "")
