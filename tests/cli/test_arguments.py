"""Arguments that can not work are refused before a broker is asked."""

import pytest

from penstock.cli.connect import FIRST_CONNECT_MS_MAX, FIRST_CONTACT_SECONDS_MAX
from penstock.cli.main import guarded


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
            "never is no place: write beginning, end, an offset, @milliseconds, or a time such as "
            "2026-01-31T12:00",
        ),
        ("produce t --key-field id", "--key-field needs --format json or csv"),
        ("config set topic t x", "x: write KEY=VALUE"),
        (
            "config describe broker one",
            "one is no broker id: give a number, as penstock topic describe shows",
        ),
        ("land t --to x --trigger -1", "--trigger: seconds, 0 or more"),
        ("land t --to x --conf a", "--conf a: write --conf KEY=VALUE"),
        ("topic list -b host:port", "bootstrap address 'host:port' is not host:port"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(capsys, arguments, line):
    assert guarded(arguments.split()) == 2
    assert capsys.readouterr().err == f"penstock: {line}\n"


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
