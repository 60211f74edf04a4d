"""The list of commands of `penstock`, and the guard that keeps errors to one line.

Commands import what they need when they run, so that `--help` and shell completion stay fast.
Exit codes are for scripts: 0 done; 1 the command failed while it ran; 2 arguments or settings are
wrong; 130 interrupted by the keyboard. Results go to stdout, everything else to stderr.

Commands raise their errors; only the guard prints them. With `--debug`, or PENSTOCK_DEBUG=1, the
traceback is printed as well.
"""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from penstock.base.errors import ConfigError, PlatformError
from penstock.cli import (
    cluster,
    config,
    consume,
    controllers,
    doctor,
    examples,
    group,
    land,
    log,
    node,
    produce,
    serve,
    sets,
    topic,
    transaction,
    up,
)
from penstock.cli.access import acl, audit, quota, token, user
from penstock.cli.archive import commands as archive_commands
from penstock.cli.archive import replay
from penstock.cli.connect import CLIENT_CONFIG_VARIABLE
from penstock.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, drop_output
from penstock.cli.launch import http
from penstock.cli.records import message
from penstock.cli.tier import commands as tier_commands

DEBUG_VARIABLE = "PENSTOCK_DEBUG"
QUOTED_CHARACTERS_MAX = 80
MESSAGE_CHARACTERS_MAX = 2_000
"""Of a longer message the middle is left out: it repeats what was given."""
PARSER_WORDS = ": Value error, "
"""What pydantic, by which typer parses values, puts before a sentence that says it all."""
OUTPUT_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers that mean a full output device, for errors that name no file."""

app = typer.Typer(
    name="penstock",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(node.app, name="node")
app.command(name="serve")(serve.run_serve)
app.add_typer(controllers.app, name="controller")
app.command(name="up")(up.run_up)
app.add_typer(cluster.app, name="cluster")
app.add_typer(sets.app, name="set")
app.add_typer(topic.app, name="topic")
app.command(name="produce")(produce.run_produce)
app.command(name="consume")(consume.run_consume)
app.add_typer(group.app, name="group")
app.add_typer(message.app, name="message")
app.add_typer(transaction.app, name="transaction")
app.add_typer(config.app, name="config")
app.add_typer(acl.app, name="acl")
app.add_typer(quota.app, name="quota")
app.add_typer(audit.app, name="audit")
app.add_typer(log.app, name="log")
app.add_typer(token.app, name="token")
app.add_typer(user.app, name="user")
app.add_typer(tier_commands.app, name="tier")
app.command(name="http")(http.run_http)
app.command(name="land")(land.run_land)
app.add_typer(archive_commands.app, name="archive")
app.command(name="replay")(replay.run_replay)
app.command(name="doctor")(doctor.run_doctor)


@app.callback(invoke_without_command=True)
def penstock(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print version, commit, and whether it is compiled.")
    ] = False,
    client_config: Annotated[
        Path | None,
        typer.Option(
            "--client-config",
            metavar="FILE",
            envvar=CLIENT_CONFIG_VARIABLE,
            help="How to talk to brokers: TLS and SASL, by librdkafka's names.",
        ),
    ] = None,
) -> None:
    """A replicated log and message platform for stock Kafka clients and Spark."""
    if client_config is not None:
        os.environ[CLIENT_CONFIG_VARIABLE] = str(client_config)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    if version:
        from penstock.node.pages.build_info import version_line

        typer.echo(version_line())
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(EXIT_USAGE)


examples.attach(app)


def guarded(arguments: Sequence[str] | None = None) -> int:
    """Run one command; turn whatever it raises into one line on stderr and an exit code."""
    with _environment_kept():
        return _written_out(_run(arguments))


@contextlib.contextmanager
def _environment_kept() -> Iterator[None]:
    """Take back what a command's options have put into the environment for what it starts."""
    before = {name: os.environ.get(name) for name in (CLIENT_CONFIG_VARIABLE, DEBUG_VARIABLE)}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache
def parser() -> Callable[..., object]:
    """Return the parser of all commands: to make it takes longer than most of them run."""
    return typer.main.get_command(app)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = parser()(
            args=None if arguments is None else list(arguments),
            standalone_mode=False,
            prog_name="penstock",
        )
    except typer.Abort:
        _leave_the_line_of_a_question()
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _reader_went_away()
    except SystemExit as ended:
        # Typer turns a broken pipe into exit code 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        return _reader_went_away()
    except Exception as error:  # noqa: BLE001  the last line of defence of the program
        return _explain(error, sys.argv[1:] if arguments is None else arguments)
    return code if isinstance(code, int) else EXIT_OK


def _leave_the_line_of_a_question() -> None:
    """End the line of an unanswered question, so that the shell's prompt begins a new one."""
    if sys.stderr.isatty():
        with contextlib.suppress(OSError):
            sys.stderr.write("\n")


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error as one line and return the exit code."""
    from penstock.client.errors import WrongProtocol

    code = EXIT_FAILED
    match error:
        case typer.TyperException():
            text, code = _usage(error, arguments), EXIT_USAGE
        case ConfigError():
            text, code = str(error), EXIT_USAGE
        case WrongProtocol(protocol="PLAINTEXT"):
            text = (
                f"{error}: give penstock --client-config FILE, which says how to come in"
                " (penstock up --secure has written DIR/security/admin.properties)"
            )
        case PlatformError():
            text = str(error) or type(error).__name__
        case UnicodeEncodeError() if error.encoding == "utf-8":
            text = f"{error.object[:QUOTED_CHARACTERS_MAX]!a} is not UTF-8 text"
            code = EXIT_USAGE
        case OSError() if error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        case OSError() if error.errno in OUTPUT_IS_FULL:
            text = f"the output can not be written: {error.strerror}"
        case _:
            text = f"{type(error).__name__}: {error} (run again with penstock --debug to see where)"
    return _fail(text, code)


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Return what is wrong with a call, and whose help says how it is right."""
    context = getattr(error, "ctx", None)
    called = _called(arguments)
    path = context.command_path if context else called.path
    text = error.format_message().rstrip(".").replace(PARSER_WORDS, ": ")
    # Of an option without a value, or of a value that is wrong: no command is called by it.
    is_of_parameter = hasattr(error, "option_name") or hasattr(error, "param_hint")
    # Typer names the near ones itself, which it finds in the same way.
    if (
        called.unknown
        and not is_of_parameter
        and not get_close_matches(called.unknown, called.known)
    ):
        text += f"; there are {', '.join(called.known)}"
    return f"{text} (see {path} --help)"


class _Called(NamedTuple):
    """The command that is called."""

    path: str
    known: Sequence[str]
    """The commands below it."""
    unknown: str
    """What is called below it and is not known; empty if it takes arguments."""


def _called(arguments: Sequence[str]) -> _Called:
    command: Any = typer.main.get_command(app)
    path, known, unknown = ["penstock"], getattr(command, "commands", {}), ""
    words = iter(arguments)
    for name in words:
        if name in known:
            path.append(name)
            command = known[name]
            known = getattr(command, "commands", {})
        elif name in _options_with_value(command):
            next(words, None)
        elif not name.startswith("-"):
            unknown = name if known else ""
            break
    return _Called(" ".join(path), tuple(known), unknown)


def _options_with_value(command: Any) -> set[str]:
    """Return the names of the options of a command behind which its value is a word of its own."""
    options = [one for one in command.params if one.param_type_name == "option"]
    return {name for one in options if not (one.is_flag or one.count) for name in one.opts}


def _fail(message: str, code: int) -> int:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exc()
    text = " ".join(message.split())
    if len(text) > MESSAGE_CHARACTERS_MAX:
        half = MESSAGE_CHARACTERS_MAX // 2
        text = f"{text[:half]} … {text[-half:]}"
    with contextlib.suppress(OSError):
        print(f"penstock: {text}", file=sys.stderr)
    return code


def _written_out(code: int) -> int:
    """Write what stdout still holds, since Python would report a failure in its own words."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        text = f"the output can not be written: {error.strerror}"
        return code or _fail(text, EXIT_FAILED)
    return code


def _reader_went_away() -> int:
    """End silently, as for `penstock consume | head`."""
    drop_output()
    return EXIT_OK
