"""When `penstock up` calls its cluster ready."""

import asyncio
import signal

import pytest

from penstock.cli.exit_codes import EXIT_OK, EXIT_USAGE
from penstock.cli.launch import launcher
from penstock.cli.launch.node_process import NodeProcess
from penstock.cli.launch.probe import LoginRefused


@pytest.fixture
def node(tmp_path):
    return NodeProcess(broker_id=1, directory=tmp_path, address=("127.0.0.1", 9092), restart=True)


@pytest.mark.parametrize("seen", [{1}, {1, 2}], ids=["its own", "those of an earlier start"])
def test_a_node_that_knows_all_that_are_started_has_answered(node, monkeypatch, seen):
    async def brokers_seen(*_):
        return seen

    monkeypatch.setattr(launcher, "brokers_seen", brokers_seen)
    asyncio.run(asyncio.wait_for(launcher._until_all_answer([node]), 60))
    assert node.has_answered


def test_a_node_that_does_not_know_the_others_yet_is_asked_again(node, monkeypatch):
    answers = [set(), {2}, {1, 2}]

    async def brokers_seen(*_):
        return answers.pop(0)

    monkeypatch.setattr(launcher, "brokers_seen", brokers_seen)
    monkeypatch.setattr(launcher, "PROBE_INTERVAL_SECONDS", 0)
    asyncio.run(launcher._until_all_answer([node]))
    assert answers == []


def test_the_node_that_could_not_run_is_named_not_one_that_was_told_to_end(node, tmp_path, capsys):
    other = NodeProcess(broker_id=2, directory=tmp_path, address=("127.0.0.1", 9093), restart=True)
    assert launcher._exit_code([node, other], [-signal.SIGTERM, EXIT_USAGE]) == EXIT_USAGE
    assert capsys.readouterr().err == "penstock: node 2 ended with exit code 2; its log says why\n"
    assert launcher._exit_code([node, other], [-signal.SIGTERM, EXIT_OK]) == EXIT_OK


def test_a_node_that_does_not_let_the_launcher_in_is_named_with_what_to_do(
    node, monkeypatch, capsys
):
    answers = [LoginRefused, LoginRefused, {1}]

    async def brokers_seen(*_):
        answer = answers.pop(0)
        if answer is LoginRefused:
            raise answer
        return answer

    monkeypatch.setattr(launcher, "brokers_seen", brokers_seen)
    monkeypatch.setattr(launcher, "PROBE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(launcher, "STILL_STARTING_SECONDS", -1)
    asyncio.run(launcher._until_all_answer([node]))
    said = (
        "penstock: node 1 runs and does not let user admin in: write the password that the user"
        " has now into security/admin.password\n"
    )
    assert capsys.readouterr().err == 2 * said
