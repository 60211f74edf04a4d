"""Compiles and runs the C clients; says why where it can not.

The load must cost little, or the figures are the client's. librdkafka is the one that comes inside
the confluent-kafka wheel, so that client and stub are the same version.
"""

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import confluent_kafka

SOURCES = Path(__file__).resolve().parent.parent / "native"
RUN_SECONDS = 300
NOTHING: Mapping[str, object] = MappingProxyType({})


class LoadFailed(Exception):
    """A client ended with an error; the text is what it said."""


@functools.cache
def why_not() -> str | None:
    """Return why the C clients can not be used, or None when they can."""
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    if _library() is None:
        return "confluent-kafka brings no librdkafka of its own here"
    return None


def librdkafka(*arguments: object, settings: Mapping[str, object] = NOTHING) -> dict[str, Any]:
    """Run the librdkafka client, with further settings of the library; return what it measured."""
    told = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    return run("librdkafka_client", *told, *arguments)


def run(program: str, *arguments: object) -> dict[str, Any]:
    """Compile `program` if needed and run it; its last line is JSON."""
    command = [str(compiled(program)), *[str(argument) for argument in arguments]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"{program} {arguments}: {done.stdout[-500:]} {done.stderr[-500:]}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


@functools.cache
def compiled(program: str) -> Path:
    """Compile one C client; returns the binary."""
    target = _build_directory() / program
    command = ["gcc", "-O2", "-Wall", "-o", str(target), str(SOURCES / f"{program}.c")]
    library = _library()
    if program.startswith("librdkafka") and library is not None:
        command += [str(library), f"-Wl,-rpath,{library.parent}"]
        # The wheel's own copies of OpenSSL and others lie beside it and are found at run time.
        command += [f"-Wl,-rpath-link,{library.parent}", "-Wl,--allow-shlib-undefined"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return target


@functools.cache
def _build_directory() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
    _KEEP.append(holder)
    return Path(holder.name)


_KEEP: list[tempfile.TemporaryDirectory[str]] = []


def _library() -> Path | None:
    beside = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    return next(iter(sorted(beside.glob("librdkafka-*.so*"))), None)
