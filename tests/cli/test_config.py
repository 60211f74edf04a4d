"""`penstock config` with brokers, groups and client metrics, on a real cluster of one."""

import json

import pytest

from tests.cli.launched import launched


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with launched(tmp_path_factory.mktemp("node") / "data") as up:
        yield up


@pytest.mark.parametrize(
    ("resource", "name", "key", "value", "source"),
    [
        ("broker", "1", "net.idle_seconds_max", "77", "broker"),
        ("broker", "default", "log.retention.ms", "8640000", "cluster"),
        ("group", "readers", "share.isolation.level", "read_committed", "group"),
        ("client-metrics", "all", "interval.ms", "1000", "client-metrics"),
    ],
)
def test_what_is_set_is_shown_with_its_source_and_unset_again(
    node, resource, name, key, value, source
):
    def shown():
        out = node.run("config", "describe", resource, name, "--changed", "-o", "json")
        return {one["name"]: (one["value"], one["source"]) for one in json.loads(out)}

    node.run("config", "set", resource, name, f"{key}={value}")
    assert shown()[key] == (value, source)
    node.run("config", "unset", resource, name, key)
    assert key not in shown()


def test_groups_for_which_something_is_set_are_listed(node):
    node.run("config", "set", "group", "listed", "streams.num.standby.replicas=1")
    assert "listed" in node.run("config", "list", "group")
    assert json.loads(node.run("config", "list", "broker", "-o", "json")) == [{"name": "1"}]


def test_a_refusal_says_under_which_name_a_setting_changes(node):
    code, _, errors = node.try_to_run("config", "set", "broker", "1", "topic.retention_ms=5")
    assert code == 1
    assert "change log.retention.ms instead" in errors


@pytest.mark.parametrize(
    ("resource", "name", "where"),
    [
        ("topic", "unset", "topic unset"),
        ("broker", "1", "broker 1"),
        ("broker", "default", "broker 1"),
        ("group", "readers", "group readers"),
        ("client-metrics", "all", "client-metrics all"),
    ],
)
def test_a_setting_that_there_is_not_is_not_said_to_be_unset(node, resource, name, where):
    node.run("topic", "create", "unset", "--if-absent")
    assert node.try_to_run("config", "unset", resource, name, "no.such.key") == (
        2,
        "",
        f"penstock: no.such.key is no setting of {resource} {name}: see penstock config describe"
        f" {where}\n",
    )


def test_what_only_all_brokers_together_have_is_unset(node):
    key = "listener.name.elsewhere.max.connections"
    node.run("config", "set", "broker", "default", f"{key}=500")
    assert key in node.run("config", "describe", "broker", "default")
    node.run("config", "unset", "broker", "default", key)
    assert key not in node.run("config", "describe", "broker", "default")


def test_a_topic_is_created_with_a_message_type(node):
    node.run("topic", "create", "typed", "--message-type", "fifo")
    described = node.run("config", "describe", "topic", "typed", "-o", "json")
    (row,) = [one for one in json.loads(described) if "FIFO" in json.dumps(one)]
    assert "penstock.message.type" in json.dumps(row)
    code, _, errors = node.try_to_run("topic", "create", "lite", "--message-type", "lite")
    assert (code, "message-type" in errors) == (2, True)
