"""Commands for the controllers: one line that says what to do where they can not be carried out."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ports import free_port
from penstock.cli import operator, program
from penstock.controller.metadata.levels import (
    FEATURES_LEVEL,
    FIRST_LEVEL,
    GROUPS,
    METADATA,
    METADATA_LEVELS,
    SHARES,
    STREAMS,
    TRANSACTIONS,
)
from tests.live_node import LiveNode, running_node

COMMANDS = [
    ["cluster", "status"],
    ["cluster", "features"],
    ["cluster", "upgrade"],
    ["cluster", "downgrade", "--level", "1"],
    ["set", "list"],
    ["set", "describe", "1"],
    ["set", "elect", "1"],
    ["set", "transfer", "1"],
    ["set", "create", "1"],
    ["set", "add", "1", "2"],
    ["set", "remove", "1", "2"],
    ["set", "policy", "1", "quorum"],
    ["controller", "status"],
    ["controller", "transfer", "2"],
    ["controller", "add", "2", "127.0.0.1:9093"],
    ["controller", "remove", "2"],
    ["node", "drain", "1"],
]
each_command = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = program.guarded(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code and the one line of a command that could not be carried out."""
    code, out, err = run(capsys, *arguments)
    (line,) = err.splitlines()
    assert out == ""
    assert line.startswith("penstock: ")
    return code, line.removeprefix("penstock: ")


def settings_file(directory: Path, *lines: str) -> str:
    (directory / "secret").write_text("0123456789abcdef\n")
    (directory / "secret").chmod(0o600)
    path = directory / "node.toml"
    path.write_text("\n".join(("[cluster]", 'secret_file = "secret"', *lines)) + "\n")
    return str(path)


@each_command
def test_directory_without_a_cluster_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    code, line = refusal(capsys, *command, "--data", str(tmp_path / "absent"))
    assert code == 2
    assert line.startswith(f"{tmp_path / 'absent'} holds no cluster of `penstock up`")


@each_command
def test_node_alone_has_no_port_for_operators(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    code, line = refusal(capsys, *command, "--config", settings_file(tmp_path))
    assert code == 2
    assert line.startswith("this node is alone and has no port for operators: give cluster.voters")


@each_command
def test_controllers_that_are_not_there_are_given_up(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: list[str],
) -> None:
    monkeypatch.setattr(operator, "ANSWER_SECONDS", 0.1)
    config = settings_file(tmp_path, f'voters = ["1@127.0.0.1:{free_port()}"]')
    code, line = refusal(capsys, *command, "--config", config)
    assert code == 1
    assert line.startswith("no active controller answered in time: see whether a majority")


def test_a_command_that_waits_for_controllers_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(operator, "QUIET_SECONDS", 0)
    monkeypatch.setattr(operator, "ANSWER_SECONDS", 1)
    config = settings_file(tmp_path, f'voters = ["1@127.0.0.1:{free_port()}"]')
    code, out, err = run(capsys, "cluster", "status", "-o", "json", "--config", config)
    assert (code, out) == (1, "")
    waiting, refused = err.splitlines()
    assert waiting == "waiting for the active controller, for 1 s at most"
    assert refused.startswith("penstock: no active controller answered in time")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    """A node that is its own controller and can be reached, and a settings file that says where."""
    directory, port = tmp_path_factory.mktemp("operated"), free_port()
    voters = f"1@127.0.0.1:{port}"
    config = settings_file(directory, f'voters = ["{voters}"]')
    (directory / "data").mkdir()
    overrides = (
        f"cluster.secret_file={directory / 'secret'}",
        f"cluster.voters={voters}",
        f"cluster.controller_port={port}",
    )
    with running_node(directory / "data", *overrides) as node:
        yield node, config


def test_status_is_shown_as_a_table_and_as_json(
    capsys: pytest.CaptureFixture[str], cluster: tuple[LiveNode, str]
) -> None:
    _, config = cluster
    code, out, err = run(capsys, "cluster", "status", "--config", config)
    assert (code, err) == (0, "")
    assert "active controller 1, epoch 1" in out
    code, out, _ = run(capsys, "cluster", "status", "-o", "json", "--config", config)
    status = json.loads(out)
    assert [one["broker_id"] for one in status["brokers"]] == [1]
    assert [(one["replica_set_id"], one["master"]) for one in status["sets"]] == [(1, 1)]
    code, out, _ = run(capsys, "controller", "status", "-o", "json", "--config", config)
    assert (json.loads(out)["leader_id"], code) == (1, 0)
    assert run(capsys, "set", "describe", "1", "--config", config)[0] == 0


@pytest.mark.parametrize("other_voters", [0, 1])
def test_the_secret_of_another_cluster_is_told_as_soon_as_one_controller_refuses_it(
    capsys: pytest.CaptureFixture[str],
    cluster: tuple[LiveNode, str],
    tmp_path: Path,
    other_voters: int,
) -> None:
    """Also where the others are down: nothing would come of waiting for them."""
    voter = f"1@127.0.0.1:{cluster[0]._settings.cluster.controller_port}"
    down = [f"{number + 2}@127.0.0.1:{free_port()}" for number in range(other_voters)]
    config = settings_file(tmp_path, f"voters = {json.dumps([voter, *down])}")
    (tmp_path / "secret").write_text("another secret of a cluster\n")
    code, line = refusal(capsys, "cluster", "status", "--config", config)
    assert code == 1
    assert line == (
        "the controllers do not let this command in: by the other side: wrong secret: it must be "
        "the same on all peers"
    )


def test_levels_are_shown_lowered_and_raised(
    capsys: pytest.CaptureFixture[str], cluster: tuple[LiveNode, str]
) -> None:
    newest = METADATA_LEVELS.highest

    def levels() -> dict[str, int]:
        code, out, err = run(capsys, "cluster", "features", "-o", "json", "--config", cluster[1])
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert [(one["id"], one["highest"]) for one in document["processes"]] == [(1, newest)]
        return {one["feature"]: one["level"] for one in document["features"]}

    def change(command: str, *options: str) -> str:
        code, out, _ = run(capsys, "cluster", command, *options, "--config", cluster[1])
        assert code == 0
        return out

    others = {GROUPS: 1, SHARES: 1, STREAMS: 1}
    at_newest = {METADATA: newest, TRANSACTIONS: 2, **others}
    assert levels() == at_newest
    assert change("downgrade", "--feature", TRANSACTIONS) == f"{TRANSACTIONS} is at level 1\n"
    assert levels() == {**at_newest, TRANSACTIONS: 1}
    assert change("upgrade", "--feature", TRANSACTIONS) == f"{TRANSACTIONS} is at level 2\n"
    for level in (*range(newest - 1, FIRST_LEVEL - 1, -1), FIRST_LEVEL):
        assert change("downgrade") == f"{METADATA} is at level {level}\n"
        transactions = 2 if level >= FEATURES_LEVEL else 1
        assert levels() == {METADATA: level, TRANSACTIONS: transactions, **others}
    raised = f"{METADATA} is at level {newest}\n{TRANSACTIONS} is at level 2\n"
    assert change("upgrade") == raised
    assert levels() == at_newest
    assert "penstock.metadata" in run(capsys, "cluster", "features", "--config", cluster[1])[1]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("set describe 7", "there is no replica set 7: see penstock set list"),
        ("set add 1 1", "broker 1 is a member of set 1 already"),
        ("set remove 1 2", "broker 2 is not a member of set 1"),
        ("controller add 2 127.0.0.1:9093", ""),
        ("controller remove 2", ""),
        ("controller transfer 2", ""),
        (
            "cluster upgrade --level 9",
            "penstock.metadata can not be set to level 9: broker 1 reads",
        ),
        ("cluster upgrade --level 1", ""),
        ("node drain 9", ""),
        ("set elect 7", ""),
        ("set transfer 1 --to 9", ""),
        ("set create 9", ""),
    ],
)
def test_what_controllers_refuse_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], cluster: tuple[LiveNode, str], command: str, text: str
) -> None:
    code, line = refusal(capsys, *command.split(), "--config", cluster[1])
    assert code == 1
    assert text in line
    assert "penstock --debug" not in line


def test_ids_that_are_no_numbers_are_refused(
    capsys: pytest.CaptureFixture[str], cluster: tuple[LiveNode, str]
) -> None:
    code, line = refusal(capsys, "set", "create", "one", "--config", cluster[1])
    assert (code, line) == (2, "one: write broker ids with commas, as in 1,2,3")
