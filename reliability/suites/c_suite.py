"""Tests of librdkafka, from Debian's source package; its makefiles build and run them.

Debian's patches are left out: they take files away that the tests want. apt has to know a source of
source packages that has this version (`Types: deb-src`).
"""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from harness.maven import jars
from reliability.suites.model import (
    FETCH_SECONDS,
    Call,
    Outcomes,
    Said,
    SuiteFailed,
    call,
    fetched,
)

BUILD_SECONDS = 1_800.0
BROKER_VERSION = "4.1.0"
PARTS = 3
"""Runs, each of every third test: none takes too long."""
_ENDS = {
    "PASSED": Said.PASSED,
    "FAILED": Said.FAILED,
    "SKIPPED": Said.LEFT_OUT,
    "RUNNING": Said.UNFINISHED,
}
_RUNNER = ("stdbuf", "-oL", "./test-runner", "-Q", "-p3")
"""By lines: it may abort behind its table, and would take what is not written with it."""
_SUMMARY = ") SUMMARY\n"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"^\| *(\S+) +\| +([A-Z]+) \|(.*)$", re.MULTILINE)
_OF_OTHER_PART = "included in TESTS_SKIP list"
_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-run-class.sh": "",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def fetch_librdkafka(work: Path, version: str) -> Path:
    """Return the built source; what is built already is kept. Raises SuiteFailed."""
    work.mkdir(parents=True, exist_ok=True)
    target = work / f"librdkafka-{version}"
    if (target / "tests" / "test-runner").exists():
        return target
    package = f"librdkafka={version}-1"
    download = call(
        ["apt-get", "source", "--download-only", package], cwd=work, seconds=FETCH_SECONDS
    )
    fetched(download, f"{package} can not be fetched")
    (description,) = work.glob(f"librdkafka_{version}-*.dsc")
    unpack = ["dpkg-source", "--no-check", "--skip-patches", "-x", description.name, target.name]
    fetched(call(unpack, cwd=work, seconds=FETCH_SECONDS), "the package can not be unpacked")
    for command in (
        ["./configure"],
        ["make", "-C", "src"],
        ["make", "-C", "src-cpp"],
        ["make", "-C", "tests", "test-runner"],
    ):
        fetched(call(command, cwd=target, seconds=BUILD_SECONDS), "librdkafka does not build")
    return target


def run_librdkafka(given: Call) -> Outcomes:
    """Run its tests in quick mode, part after part. Raises SuiteFailed."""
    tests = given.source / "tests"
    (tests / "test.conf").write_text(f"bootstrap.servers={given.nodes.bootstrap}\n")
    whole = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{given.source / 'src'}:{given.source / 'src-cpp'}",
        "BROKERS": given.nodes.bootstrap,
        "KAFKA_PATH": str(_with_tools(given.source / "kafka")),
        "TEST_KAFKA_VERSION": BROKER_VERSION,
        "TEST_LEVEL": "1",
    }
    ends: dict[str, Said] = {}
    numbers = sorted({path.name[:4] for path in tests.glob("[0-9][0-9][0-9][0-9]-*.c*")})
    for part in range(1 if given.only else PARTS):
        others = [one for at, one in enumerate(numbers) if at % PARTS != part]
        chosen = {"TESTS": given.only} if given.only else {"TESTS_SKIP": ",".join(others)}
        path = given.source / f"suite-{part}.log"
        _run_to_its_end([*_RUNNER], tests, {**whole, **chosen}, path, given.seconds)
        said = path.read_text(errors="replace")
        if _SUMMARY not in said:
            raise SuiteFailed(f"part {part} had not ended after {given.seconds:.0f} s: {path}")
        ends |= read_summary(said)
    return ends


def _run_to_its_end(
    command: list[str], cwd: Path, env: dict[str, str], log: Path, seconds: float
) -> None:
    """Run the tests with SIGPIPE ignored, which a shell would give them.

    What they say of errors goes to a file beside `log`: it would stand in the midst of the table.
    """
    with log.open("wb") as said, log.with_suffix(".errors").open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=errors,
            restore_signals=False,
            start_new_session=True,
        )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _with_tools(target: Path) -> Path:
    """Return a directory with Kafka's tools as its scripts call them. Raises SuiteFailed."""
    found = jars("kafka-tools")
    if isinstance(found, str):
        raise SuiteFailed(f"Kafka's tools: {found}")
    (target / "bin").mkdir(parents=True, exist_ok=True)
    path = ":".join(str(one) for one in found)
    for name, main in _TOOLS.items():
        script = target / "bin" / name
        script.write_text(f'#!/bin/sh\nexec java -cp {shlex.quote(path)} {main} "$@"\n')
        script.chmod(0o755)
    return target


def read_summary(text: str) -> Outcomes:
    """Return how each test ended, from the table that a run ends with; not those of other parts."""
    return {
        name: _ENDS[state]
        for name, state, why in _ROW.findall(_COLOURS.sub("", text))
        if state in _ENDS and name != "<MAIN>" and _OF_OTHER_PART not in why
    }
