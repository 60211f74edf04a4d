"""Every command's help ends with examples, which name commands and options that are there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from penstock.cli import program
from penstock.cli.examples import EXAMPLES


def walk(command, path=()):
    yield " ".join(path), command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


COMMANDS = dict(walk(typer.main.get_command(program.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_examples(name, capsys):
    assert program.guarded([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert "\n  Examples:\n    " in out
    for example in EXAMPLES[name]:
        assert f"    {example}\n" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_shows_twice_that_more_may_follow(name, capsys):
    program.guarded([*name.split(), "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert "...}..." not in usage
    assert "[[" not in usage


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_parsed(name):
    for example in EXAMPLES[name]:
        part = next(one for one in example.split("|") if f"penstock {name}".strip() in one)
        words = shlex.split(part.split("<")[0])[1:]
        parse(COMMANDS[""], words)


def parse(command, words):
    """Let typer parse the words; it raises for what there is not."""
    context = command.make_context("penstock", list(words), resilient_parsing=False)
    with context:
        if getattr(command, "commands", None) and (rest := context._protected_args + context.args):
            parse(command.commands[rest[0]], rest[1:])


def test_no_example_is_left_over():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for_the_shells(shell):
    assert "_PENSTOCK_COMPLETE" in completed(_PENSTOCK_COMPLETE=f"source_{shell}")


def test_a_command_that_is_begun_is_completed():
    words = {"COMP_WORDS": "penstock top", "COMP_CWORD": "1"}
    assert completed(_PENSTOCK_COMPLETE="complete_bash", **words).split() == ["topic"]


def completed(**environment):
    """Ask as a shell does; which one runs the tests does not matter then."""
    command = Path(sys.executable).with_name("penstock")
    environment = os.environ | environment
    asked = subprocess.run([command], env=environment, capture_output=True, text=True, check=False)
    return asked.stdout
