"""What a node refuses, as a command tells it: by the name that was given, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.cli import program
from penstock.cli.exit_codes import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from penstock.cli.launch.node_files import settings_toml
from penstock.cli.program import guarded
from penstock.client.errors import WrongProtocol
from penstock.controller.commands.access.commands import AddAcls
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.live_node import LiveNode, running_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with running_node(tmp_path_factory.mktemp("node"), "broker.audit=true") as node:
        yield node


def told(capsys: pytest.CaptureFixture[str], node: LiveNode, *words: str) -> tuple[int, str]:
    """Run a command against the node; return its exit code and what it says on stderr."""
    code = guarded([*words, "--bootstrap", f"127.0.0.1:{node.port}"])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("resource", "named"),
    [
        (("broker", "default"), "broker default"),
        (("broker", "1"), "broker 1"),
        (("group", "readers"), "group readers"),
        (("client-metrics", "all"), "client-metrics all"),
    ],
)
def test_a_refused_configuration_is_told_by_the_name_that_was_given(
    capsys: pytest.CaptureFixture[str], node: LiveNode, resource: tuple[str, str], named: str
) -> None:
    code, said = told(capsys, node, "config", "set", *resource, "no.such.key=1")
    assert code == EXIT_FAILED
    assert said.startswith(f"penstock: configuration of {named} refused with INVALID_")


def test_a_topic_that_is_not_there_is_told_by_its_own_name(
    capsys: pytest.CaptureFixture[str], node: LiveNode
) -> None:
    code, said = told(capsys, node, "config", "describe", "topic", "nope")
    assert code == EXIT_FAILED
    assert said.startswith("penstock: topic nope does not exist: see penstock topic list")


def test_rules_where_nobody_goes_by_them_name_the_setting_that_changes_it(
    capsys: pytest.CaptureFixture[str], node: LiveNode
) -> None:
    code, said = told(capsys, node, "acl", "list")
    assert code == EXIT_FAILED
    assert "access.authorizer is off: set it to acl on each node" in said


@pytest.mark.parametrize("more", [(), ("--delete",)])
def test_a_store_is_not_judged_by_a_cluster_that_has_copied_nothing(
    capsys: pytest.CaptureFixture[str], node: LiveNode, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """The cluster may be the wrong one, and what it does not know would be deleted."""
    store = tmp_path / "store"
    (store / "somebody").mkdir(parents=True)
    (store / "somebody" / "object").write_text("kept")
    config = tmp_path / "node.toml"
    config.write_text(
        settings_toml({"tier": {"url": f"file://{store}"}, "log": {"level0_bytes": 1_000_000}})
    )
    code, said = told(capsys, node, "tier", "repair", "--config", str(config), *more)
    assert code == EXIT_FAILED
    assert "nothing to compare the store with: no topic was copied into it yet" in said
    assert (store / "somebody" / "object").read_text() == "kept"


def test_who_may_write_need_not_see_the_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The limit of the topic was asked for, and its denial taken for the end."""
    (tmp_path / "data").mkdir()
    settings = "access.authorizer=acl", "access.super_users=User:admin"
    large, too_large = tmp_path / "large", tmp_path / "too-large"
    large.write_bytes(b"small\n" + b"x" * 900_000 + b"\n")
    too_large.write_bytes(b"x" * 2_000_000)
    rule = Rule(
        resource_type=AclResource.TOPIC,
        resource_name="t",
        pattern=AclPattern.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=AclOperation.WRITE,
        permission=AclPermission.ALLOW,
    )
    with running_node(tmp_path / "data", *settings) as node:
        node.submit(CreateTopics(topics=(NewTopic(name="t", partition_count=1),)))
        node.submit(AddAcls(acls=(rule,)))
        assert told(capsys, node, "config", "describe", "topic", "t")[0] == EXIT_FAILED
        assert told(capsys, node, "produce", "t", str(large)) == (EXIT_OK, "")
        code, said = told(capsys, node, "produce", "t", str(too_large))
    assert code == EXIT_FAILED
    assert "refused with MESSAGE_TOO_LARGE" in said
    assert "max.message.bytes" in said


def test_a_quota_that_there_is_none_of_is_told_with_those_there_are(
    capsys: pytest.CaptureFixture[str], node: LiveNode
) -> None:
    code, said = told(capsys, node, "quota", "set", "--user", "a", "producer_byterate=1")
    assert code == EXIT_USAGE
    assert "producer_byterate=1 is none of producer_byte_rate, consumer_byte_rate," in said


def test_a_principal_without_its_kind_is_told_how_it_is_called(
    capsys: pytest.CaptureFixture[str], node: LiveNode
) -> None:
    code, said = told(capsys, node, "acl", "propose", "--principal", "nobody")
    assert (code, said) == (EXIT_USAGE, "penstock: --principal nobody: write User:NAME\n")


@pytest.mark.parametrize(("protocol", "is_told"), [("PLAINTEXT", True), ("SASL_PLAINTEXT", False)])
def test_who_comes_in_without_tls_is_told_of_the_file_that_says_how(
    capsys: pytest.CaptureFixture[str], protocol: str, is_told: bool
) -> None:
    assert program._explain(WrongProtocol("log-1:9092", protocol, "has TLS"), []) == EXIT_FAILED
    said = capsys.readouterr().err
    assert said.startswith(f"penstock: log-1:9092 has TLS, and security.protocol is {protocol}")
    assert ("give penstock --client-config FILE" in said) is is_told
