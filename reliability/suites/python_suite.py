"""Tests of kafka-python, from its source package on PyPI; pytest of this environment runs them."""

import os
import shutil
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

from reliability.suites.model import (
    FETCH_SECONDS,
    Call,
    Outcomes,
    Said,
    SuiteFailed,
    call,
    fetched,
)

REPORT = "suite.xml"
TEST_SECONDS = 120
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    pass
"""
"""Stands for a module of the tests that the package lacks: the broker is started by others."""


def fetch_package(work: Path, package: str, version: str) -> Path:
    """Return the unpacked source package. Raises SuiteFailed."""
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:"]
    command += ["--dest", str(work), f"{package}=={version}"]
    fetched(call(command, cwd=work, seconds=FETCH_SECONDS), f"{package} can not be fetched")
    name = f"{package.replace('-', '_')}-{version}"
    target = work / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.unpack_archive(work / f"{name}.tar.gz", work)
    (target / "test" / "__init__.py").touch()  # else `test` is that of the standard library
    (target / "test" / "service.py").write_text(SERVICE, encoding="utf-8")
    return target


def run_kafka_python(given: Call) -> Outcomes:
    """Run its integration tests, and return how each ended. Raises SuiteFailed."""
    report = given.source / REPORT
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "test/integration",
        "--ignore=test/integration/test_ssl_integration.py",
        "-q",
        "-p",
        "no:randomly",
    ]
    command += [
        "-o",
        "addopts=",
        "--tb=native",
        f"--timeout={TEST_SECONDS}",
        f"--junitxml={report}",
    ]
    command += ["-k", given.only] if given.only else []
    whole = {
        **os.environ,
        "KAFKA_URI": f"kafka://{given.nodes.first}",
        "KAFKA_VERSION": "4.2",
        "KAFKA_ROOT": str(given.source),  # has to be a directory, and is not looked into
    }
    done = call(command, cwd=given.source, seconds=given.seconds, env=whole)
    (given.source / "suite.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not report.exists():
        raise SuiteFailed(f"pytest wrote no report: {done.stdout[-1000:]}")
    return read_report(report.read_text(encoding="utf-8"))


def read_report(text: str) -> Outcomes:
    """Return how each test ended, from what `pytest --junitxml` writes.

    A test is listed twice when it passed and its end did not: it has failed.
    """
    ends: dict[str, Said] = {}
    for case in Xml.fromstring(text).iter("testcase"):
        name = case.get("name", "")
        kinds = {part.tag for part in case}
        if kinds & {"failure", "error"}:
            ends[name] = Said.FAILED
        elif "skipped" in kinds:
            ends.setdefault(name, Said.LEFT_OUT)
        else:
            ends.setdefault(name, Said.PASSED)
    return ends
