"""What a node refuses, as a command tells it: by the name that was given, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.exit_codes import EXIT_FAILED
from penstock.cli.launch.node_files import settings_toml
from penstock.cli.program import guarded
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
