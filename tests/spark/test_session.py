"""What a landing job says and does before it has a session: who is silent, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.errors import TopicNotFound
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import SparkUnavailable
from penstock.spark.land import LandOptions, job, main
from penstock.spark.session import check_classic, check_java, interrupt_held

CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """As in a terminal, also where the tests are a shell's background job, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_java_is_looked_for_where_spark_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "path" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(SparkUnavailable, match=r"JAVA_HOME is .*, which has no bin/java: unset it"):
        check_java()
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin" / "java").touch(mode=0o755)
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    java.unlink()
    with pytest.raises(SparkUnavailable, match="Spark needs Java 17 or newer"):
        check_java()


@pytest.mark.parametrize(
    ("master", "settings", "environment", "why"),
    [
        ("sc://log-1:15002", {}, {}, "the master is sc://log-1:15002"),
        ("local[2]", {"spark.remote": "sc://a"}, {}, "spark.remote or SPARK_REMOTE is sc://a"),
        ("local[2]", {}, {"SPARK_REMOTE": "sc://b"}, "spark.remote or SPARK_REMOTE is sc://b"),
        ("local[2]", {"spark.api.mode": "Connect"}, {}, "spark.api.mode or SPARK_API_MODE is"),
        ("local[2]", {}, {"SPARK_API_MODE": "connect"}, "spark.api.mode or SPARK_API_MODE is"),
        ("local[2]", {}, {"SPARK_CONNECT_MODE_ENABLED": "1"}, "spark.api.mode or SPARK_API_MODE"),
    ],
)
def test_a_job_is_no_client_of_spark_connect_and_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    master: str,
    settings: dict[str, str],
    environment: dict[str, str],
    why: str,
) -> None:
    for name in CONNECT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    options = LandOptions(
        topic="t",
        to=tmp_path / "table",
        bootstrap="127.0.0.1:1",
        master=master,
        spark_conf=settings,
    )
    assert main(options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"({why}" in line
    assert line.endswith("--master spark://HOST:7077")
    assert not (tmp_path / "table").exists()


def test_a_job_with_a_master_of_its_own_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONNECT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_API_MODE", "classic")
    check_classic("spark://log-1:7077", {"spark.api.mode": "classic"})


def test_an_interrupt_is_held_until_it_is_asked_for_and_answered_once(capfd):
    with interrupt_held() as held:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert capfd.readouterr().err == "penstock land: ends as soon as Spark has started\n"
    with pytest.raises(KeyboardInterrupt):
        held.check()


def test_without_an_interrupt_nothing_is_raised_and_the_handler_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    with interrupt_held() as held:
        assert signal.getsignal(signal.SIGINT) != before
    held.check()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_beside_the_main_one_leaves_signals_alone():
    found = []

    def hold():
        with interrupt_held():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_a_job_says_soon_that_no_broker_answers_and_goes_on_trying(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(job, "check_java", lambda: None)
    monkeypatch.setattr(job, "FIRST_CONTACT_SECONDS", 0.05)
    options = LandOptions(
        topic="t", to=tmp_path / "table", bootstrap="127.0.0.1:1", broker_timeout_seconds=0.2
    )
    assert main(options) == 1
    soon, at_last = capsys.readouterr().err.splitlines()
    assert at_last.startswith("penstock land: no broker reachable at 127.0.0.1:1 (")
    assert soon == at_last.replace("penstock land: ", "penstock land: trying for 0.2 s: ")
    assert not (tmp_path / "table").exists()


def test_a_topic_that_is_not_there_is_told_with_the_command_that_makes_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def absent(access: BrokerAccess, topic: str) -> list[int]:
        raise TopicNotFound(topic)

    monkeypatch.setattr(job, "check_java", lambda: None)
    monkeypatch.setattr(job, "_say_who_is_silent", lambda options: None)
    monkeypatch.setattr(BrokerAccess, "partitions", absent)
    assert main(LandOptions(topic="t", to=tmp_path / "table", bootstrap="127.0.0.1:1")) == 1
    assert capsys.readouterr().err == (
        "penstock land: topic t does not exist: penstock topic create t\n"
    )


def test_tasks_on_executors_need_the_packages_that_the_page_names_and_no_others() -> None:
    program = """
import json, sys
before = set(sys.modules)
import penstock.spark.land.task
from penstock.client.security import ClientSecurity
ClientSecurity(protocol="SASL_SSL", mechanism="PLAIN", user="u", password_file="/f")
found = [(n, getattr(m, "__file__", None)) for n, m in sys.modules.items() if n not in before]
print(json.dumps([(name, file) for name, file in found if "." not in name and file]))
"""
    listed = json.loads(subprocess.check_output([sys.executable, "-c", program], text=True))
    packages = sysconfig.get_path("purelib")
    found = {name for name, file in listed if file.startswith(packages)}
    page = (Path(__file__).parents[2] / "docs/operations/spark.md").read_text()
    named = {"pyarrow", "kio", "crc32c", "cramjam"}
    assert "with pyarrow, kio, crc32c and cramjam." in page
    theirs = {"pyspark", "py4j", "numpy", "typing_extensions"}
    """Of Spark itself, and what those packages bring along."""
    assert named <= found | {"cramjam"}
    assert found - named - theirs == set()
