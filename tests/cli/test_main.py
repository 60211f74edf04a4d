import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from penstock.base.errors import ConfigError, PlatformError
from penstock.cli import program
from penstock.cli.exit_codes import EXIT_USAGE


def run(capsys, *arguments):
    code = program.guarded(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_the_commands(capsys):
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    assert "penstock [OPTIONS] COMMAND" in out
    for command in ("node", "controller", "up", "cluster", "set"):
        assert f"\n  {command} " in out


def test_no_command_shows_the_help_and_fails(capsys):
    code, out, _ = run(capsys)
    assert code == 2
    assert "Commands:" in out


def test_version_is_printed(capsys):
    code, out, err = run(capsys, "--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"penstock 0\.1\.0 \(commit \S+, (compiled|interpreted)\)\n", out)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nod"], "penstock: No such command 'nod'. Did you mean 'node'? (see penstock --help)\n"),
        (
            ["config", "alter", "topic", "greetings"],
            "penstock: No such command 'alter'; there are describe, set, unset, list"
            " (see penstock config --help)\n",
        ),
        (
            ["--client-config", "reader.properties", "config", "alter", "topic", "greetings"],
            "penstock: No such command 'alter'; there are describe, set, unset, list"
            " (see penstock config --help)\n",
        ),
        (
            ["consume", "greetings", "--group"],
            "penstock: Option '--group' requires an argument (see penstock consume --help)\n",
        ),
        (
            ["set", "elect", "1", "--master"],
            "penstock: Option '--master' requires an argument (see penstock set elect --help)\n",
        ),
        (
            ["consume", "greetings", "--group", ""],
            "penstock: --group is empty: name the group, or leave it out\n",
        ),
        (
            ["up", "--nodes", "3", "--port", "65500"],
            "penstock: --port 65500: 3 nodes need ports up to 65702; choose 1 to 65333\n",
        ),
        (
            ["up", "--nodes", "2", "--metrics-port", "65535"],
            "penstock: --metrics-port 65535: 2 nodes need ports up to 65536; choose 0 to 65534\n",
        ),
        (["up", "--port", "0"], "penstock: --port 0: choose 1 to 65535\n"),
        (["node"], "penstock: say which node: penstock node --config FILE\n"),
        (["controller"], "penstock: say which controller: penstock controller --config FILE\n"),
        (["up", "--nodes", "0"], "penstock: --nodes 0: choose 1 to 50\n"),
        (["up", "--nodes", "51"], "penstock: --nodes 51: choose 1 to 50\n"),
        (
            ["up", "--nodes", "2", "--replicas", "3"],
            "penstock: --replicas 3: every copy needs a node; choose 1 to 2\n",
        ),
        (["node", "--config", "absent.toml"], "penstock: absent.toml: no such settings file\n"),
        (
            ["controller", "--config", "absent.toml"],
            "penstock: absent.toml: no such settings file\n",
        ),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(capsys, monkeypatch, tmp_path, arguments, line):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, *arguments) == (2, "", line)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("do this"), 2, "penstock: do this\n"),
        (PlatformError("failed:\n  so"), 1, "penstock: failed: so\n"),
        (PlatformError(), 1, "penstock: PlatformError\n"),
        (
            ZeroDivisionError("by zero"),
            1,
            "penstock: ZeroDivisionError: by zero (run again with penstock --debug to see where)\n",
        ),
        (PermissionError(13, "Permission denied", "/x"), 1, "penstock: /x: Permission denied\n"),
        (
            OSError(28, "No space left on device"),
            1,
            "penstock: the output can not be written: No space left on device\n",
        ),
        (
            UnicodeEncodeError("utf-8", "t\udcff", 1, 2, "surrogates not allowed"),
            2,
            "penstock: 't\\udcff' is not UTF-8 text\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_whatever_is_raised_becomes_one_line(capsys, monkeypatch, error, code, line):
    def fail(**_):
        raise error

    monkeypatch.setattr(program, "parser", lambda: fail)
    assert run(capsys, "anything") == (code, "", line)


PRINTS_A_ROW = """
import sys
from penstock.cli import program
program.parser = lambda: lambda **_: print("row")
sys.exit(program.guarded([]))
"""


def ended(stdout, *arguments):
    """Run Python with results that are held back until it ends, as without a terminal."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments", [("-c", PRINTS_A_ROW), ("-m", "penstock.cli.main", "--version")]
)
def test_results_that_find_the_output_full_end_in_one_line(arguments):
    line = "penstock: the output can not be written: No space left on device\n"
    with Path("/dev/full").open("w") as full:
        assert ended(full, *arguments) == (1, line)


def test_results_that_nobody_reads_any_more_are_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        assert ended(pipe, "-c", PRINTS_A_ROW) == (0, "")


@pytest.mark.parametrize("before", [None, "before"])
def test_options_of_one_call_are_not_those_of_the_next(capsys, monkeypatch, before):
    names = ("PENSTOCK_CLIENT_CONFIG", "PENSTOCK_DEBUG")
    for name in names:
        monkeypatch.setenv(name, before) if before else monkeypatch.delenv(name, raising=False)
    code, _, _ = run(capsys, "--debug", "--client-config", "a.properties", "config", "alter")
    assert code == 2
    assert [os.environ.get(name) for name in names] == [before, before]


def test_debug_shows_the_traceback(capsys):
    code, _, err = run(capsys, "--debug", "node", "--config", "absent.toml")
    assert code == 2
    assert err.startswith("Traceback")


def test_no_command_is_imported_for_the_help():
    heavy = ("pydantic", "kio", "asyncio", "pyarrow", "pyspark", "cramjam", "rich")
    script = (
        "import sys; from penstock.cli.program import guarded; guarded(['--help']); "
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stderr == "[]\n"


def test_a_reader_that_went_away_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m penstock.cli.main --help | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_closed_is_an_empty_one(closed):
    script = (
        "import sys; from penstock.cli import main; main._open_missing_streams(); "
        "sys.exit([s.fileno() for s in (sys.stdin, sys.stdout, sys.stderr)] != [0, 1, 2]"
        " or sys.stdout.isatty())"
    )
    done = subprocess.run(
        f'"{sys.executable}" -c "$SCRIPT" {closed}',
        shell=True,
        env={**os.environ, "SCRIPT": script},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0


def test_an_interrupt_while_the_commands_load_ends_the_process_without_a_word():
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from penstock.cli import main\n"
        "main.run(['--help'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_that_the_caller_ignores_stays_ignored():
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from penstock.cli import main\n"
        "try:\n"
        "    main.run(['--version'])\n"
        "except SystemExit:\n"
        "    sys.exit(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("output", "shown"),
    [("table", "NAME\ngr\\xfc\\xdf\n"), ("json", '[{"name": "gr\\u00fc\\u00df"}]\n')],
)
def test_names_are_shown_where_stdout_has_no_letters_for_them(output, shown):
    script = (
        "from penstock.cli import main, output, program\n"
        "program.guarded = lambda _: output.print_rows(\n"
        f"    [{{'name': 'gr\\xfc\\xdf'}}], ('name',), output.Output('{output}'))\n"
        "main.run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (shown, "")


@pytest.mark.parametrize(("is_terminal", "told"), [(True, "\n"), (False, "")])
def test_a_question_that_is_broken_off_leaves_the_line_at_a_terminal(
    capsys, monkeypatch, is_terminal, told
):
    def broken_off(**_):
        raise typer.Abort

    monkeypatch.setattr(program, "parser", lambda: broken_off)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert run(capsys, "topic", "delete", "t") == (130, "", told)


def test_commands_of_one_process_do_not_see_each_others_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("first", "second"):
        assert program.guarded(["node", "--config", str(tmp_path / name)]) == EXIT_USAGE
        assert str(tmp_path / name) in capsys.readouterr().err
    assert program.guarded(["node"]) == EXIT_USAGE
    assert "say which node" in capsys.readouterr().err
    assert program.guarded(["controller"]) == EXIT_USAGE
    assert "say which controller" in capsys.readouterr().err
