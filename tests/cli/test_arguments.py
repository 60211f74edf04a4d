"""Arguments that can not work are refused before a broker is asked."""

import socket

import pytest
import typer

from penstock.cli import connect, program
from penstock.cli.connect import (
    CLIENT_CONFIG_VARIABLE,
    FIRST_CONNECT_MS_MAX,
    FIRST_CONTACT_SECONDS_MAX,
)
from penstock.cli.program import guarded
from penstock.transactions.state import TransactionState

STATES = ", ".join(repr(state.title) for state in TransactionState)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("topic", "Missing command (see penstock topic --help)"),
        ("topic create", "Missing argument 'TOPIC' (see penstock topic create --help)"),
        ("topic create t -c x", "--config x: write KEY=VALUE"),
        (
            "topic create t --replicas 0",
            "Invalid value for '--replicas': Input should be greater than or equal to 1 "
            "(see penstock topic create --help)",
        ),
        ("topic alter t", "nothing to alter: give --partitions or --config"),
        ("consume t --from end", "--from end reads nothing without --follow"),
        (
            "consume t --from never",
            "never is not a place: write beginning, end, an offset, @milliseconds, or a time such "
            "as 2026-01-31T12:00",
        ),
        ("produce t --key-field id", "--key-field needs --format json or csv"),
        ("config set topic t x", "x: write KEY=VALUE"),
        (
            "config describe broker one",
            "one is no broker id: give a number, as penstock topic describe shows, or default",
        ),
        ("land t --to x --trigger -1", "--trigger: seconds, 0 to 86400"),
        ("land t --to x --trigger nan", "--trigger: seconds, 0 to 86400"),
        ("land t --to x --broker-timeout inf", "--broker-timeout: seconds, 0 to 86400"),
        ("land t --to x --conf a", "--conf a: write --conf KEY=VALUE"),
        (
            "transaction list --state ongoing",
            f"Invalid value for '--state': 'ongoing' is not one of {STATES} "
            "(see penstock transaction list --help)",
        ),
        ("topic list -b host:port", "bootstrap address 'host:port' is not host:port"),
        ("topic list -b kafka://h:1", "bootstrap address 'kafka://h:1' is not host:port"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(capsys, arguments, line):
    assert guarded(arguments.split()) == 2
    assert capsys.readouterr().err == f"penstock: {line}\n"


EMPTY = "it is empty (see penstock"
LONG = "it is longer than 32767 bytes (see penstock"
HUGE = str(2**63)
NO_DIRECTORY = "it is empty; write . for this directory (see penstock"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["topic", "create", ""], f"Invalid value for 'TOPIC': {EMPTY} topic create --help)"),
        (["topic", "delete", "t", ""], f"Invalid value for 'TOPIC': {EMPTY} topic delete"),
        (["produce", ""], f"Invalid value for 'TOPIC': {EMPTY} produce --help)"),
        (["produce", "t", ""], f"Invalid value for 'FILE': {EMPTY} produce --help)"),
        (["consume", ""], f"Invalid value for 'TOPIC': {EMPTY} consume --help)"),
        (["group", "reset", ""], f"Invalid value for 'GROUP': {EMPTY} group reset --help)"),
        (["config", "describe", "topic", ""], f"Invalid value for 'NAME': {EMPTY} config"),
        (["land", "", "--to", "x"], f"Invalid value for 'TOPIC': {EMPTY} land --help)"),
        (["land", "t", "--to", ""], f"Invalid value for '--to': {NO_DIRECTORY} land --help)"),
        (["up", "--data", ""], f"Invalid value for '--data': {NO_DIRECTORY} up --help)"),
        (["doctor", "--data", ""], f"Invalid value for '--data': {NO_DIRECTORY} doctor --help)"),
        (["config", "set", "topic", "t", ""], "'': write KEY=VALUE"),
        (["set", "create", ""], "'': write broker ids with commas, as in 1,2,3"),
        (["topic", "create", "t", "-p", "2147483648"], "Invalid value for '--partitions' / '-p'"),
        (["topic", "create", "t", "--replicas", "32768"], "Invalid value for '--replicas'"),
        (["topic", "alter", "t", "-p", "99999999999"], "Invalid value for '--partitions' / '-p'"),
        (["produce", "t", "-p", "2147483648"], "Invalid value for '--partition' / '-p'"),
        (["cluster", "remove-broker", "99999999999999999999"], "Invalid value for 'BROKER'"),
        (["set", "add", "1", "2147483648"], "Invalid value for 'BROKER'"),
        (["controller", "remove", "99999999999999999999"], "Invalid value for 'ID'"),
        (["node", "drain", "99999999999999999999"], "Invalid value for 'BROKER'"),
        (["cluster", "downgrade", "--level", "0"], "Invalid value for '--level'"),
        (["doctor", "--nodes", "51"], "Invalid value for '--nodes'"),
        (["topic", "list", "--timeout", "inf"], "Invalid value for '--timeout'"),
        (["consume", "t", "--max", HUGE], "Invalid value for '--max' / '-n'"),
        (["consume", "t", "--from", "9" * 5_000], "999"),
        (["consume", "t", "--from", f"@{'9' * 5_000}"], "@999"),
        (["consume", "t", "--group", "g" * 32_768], f"Invalid value for '--group': {LONG}"),
        (["group", "describe", "é" * 16_384], f"Invalid value for 'GROUP': {LONG}"),
        (["produce", "t", "a", "f" * 32_768], f"Invalid value for 'FILE': {LONG}"),
        (["config", "unset", "topic", "t", ""], f"Invalid value for 'KEY': {EMPTY}"),
        (["log", "dump", ".", "--from", HUGE], "Invalid value for '--from'"),
        (["log", "dump", ".", "--max", HUGE], "Invalid value for '--max' / '-n'"),
        (["log", "pins", ".", "--max", HUGE], "Invalid value for '--max' / '-n'"),
        (["transaction", "list", "--longer-than", "1e308"], "Invalid value for '--longer-than'"),
        (["transaction", "hanging", "--idle", "inf"], "Invalid value for '--idle'"),
    ],
)
def test_what_no_cluster_can_have_is_refused_by_the_name_of_its_argument(capsys, arguments, line):
    assert guarded(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"penstock: {line}")
    assert len(told) < 2_100
    assert "there are serve" not in told


def test_the_longest_name_is_no_wrong_argument(capsys):
    # A broker is asked, which is not there.
    longest = "é" * 16_383 + "a"
    arguments = ["group", "describe", longest, "-b", "127.0.0.1:1", "--timeout", "0.2"]
    assert guarded(arguments) == 1
    assert "no broker reachable" in capsys.readouterr().err


def test_the_file_for_clients_that_is_not_there_is_named_once(capsys, monkeypatch):
    monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, "absent")
    assert guarded(["topic", "list"]) == 2
    told = capsys.readouterr().err
    assert told == "penstock: absent can not be read: No such file or directory\n"


def test_a_value_that_is_wrong_is_not_taken_for_a_command(capsys):
    # Of the program's own options: root may read every file, so this error is made here.
    error = typer.BadParameter("path '/x' is not readable", param_hint="'--client-config'")
    assert program._explain(error, ["--client-config", "/x", "topic", "list"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("penstock: Invalid value for '--client-config': path '/x' is not")
    assert "there are" not in told


def test_a_broker_that_is_not_there_is_one_line_and_exit_code_1(capsys):
    assert guarded(["topic", "list", "-b", "127.0.0.1:1", "--timeout", "0.2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("penstock: no broker reachable at 127.0.0.1:1 (")
    assert captured.err.count("\n") == 1


def test_the_first_contact_is_given_up_long_before_the_rest_is(capsys):
    # What a command does later may outlast the restart of a node; a wrong address shows soon.
    assert FIRST_CONTACT_SECONDS_MAX + FIRST_CONNECT_MS_MAX / 1000 <= 4
    assert guarded(["topic", "list", "-b", "127.0.0.1:1", "--timeout", "600"]) == 1
    assert "Connection refused" in capsys.readouterr().err


def test_a_port_that_never_answers_is_given_up_when_the_time_is_over(capsys, monkeypatch):
    monkeypatch.setattr(connect, "QUIET_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert guarded(["topic", "list", "-b", where, "--timeout", "0.2"]) == 1
    told = capsys.readouterr().err
    waiting, told = told.split("\n", 1)
    assert waiting == f"waiting for {where}, for about 0.2 s at most"
    assert told.startswith(f"penstock: no broker reachable at {where} (")
    assert "not done within 200 ms (no answer)" in told
