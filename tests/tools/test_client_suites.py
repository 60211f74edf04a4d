"""How runs of the clients' own tests are read and judged (`python -m reliability.suites`)."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.node import NodeFailed
from reliability.suites import c_suite, go_suites, python_suite
from reliability.suites.__main__ import row_of, with_others
from reliability.suites.containers import containers
from reliability.suites.model import Said, SuiteFailed, call, fetched, judge
from reliability.suites.named import SUITES
from reliability.suites.nodes import tracebacks

PASSED, FAILED, LEFT_OUT, UNFINISHED = Said.PASSED, Said.FAILED, Said.LEFT_OUT, Said.UNFINISHED


def test_what_is_not_known_to_fail_is_unexpected() -> None:
    outcomes = {"a": PASSED, "b": FAILED, "c": FAILED, "d": LEFT_OUT, "e": UNFINISHED}
    found = judge(outcomes, {"b": "why"})
    assert (found.passed, found.left_out, found.known) == (1, ["d"], ["b"])
    assert found.unexpected == ["c", "e"]
    assert not found.is_well


def test_a_run_with_known_failures_alone_is_well() -> None:
    assert judge({"a": PASSED, "b": FAILED}, {"b": "why", "never run": "why"}).is_well


def test_a_known_failure_that_passes_is_told() -> None:
    found = judge({"a": PASSED, "b": PASSED}, {"b": "why"})
    assert found.healed == ["b"]
    assert not found.is_well


def test_a_run_in_which_nothing_passed_is_not_well() -> None:
    assert not judge({}, {}).is_well
    assert not judge({"a": LEFT_OUT, "b": FAILED}, {"b": "why"}).is_well


def _events(*events: tuple[str, str]) -> list[str]:
    lines = [json.dumps({"Action": action, "Test": name}) for action, name in events]
    return ["# a line of the compiler", json.dumps({"Action": "start"}), *lines]


def test_tests_of_go_end_as_its_events_say() -> None:
    lines = _events(
        ("run", "A"), ("run", "A/part"), ("output", "A"), ("fail", "A/part"), ("fail", "A"),
        ("run", "B"), ("pass", "B"), ("run", "C"), ("skip", "C"), ("run", "D"), ("pause", "D"),
    )  # fmt: skip
    assert go_suites.read_events([*lines, json.dumps({"Action": "fail"})]) == {
        "A": FAILED,
        "B": PASSED,
        "C": LEFT_OUT,
        "D": UNFINISHED,
    }


def test_a_test_of_python_whose_end_failed_has_failed() -> None:
    report = """<testsuites><testsuite>
        <testcase name="a"/><testcase name="a"><error/></testcase>
        <testcase name="b"><skipped/></testcase><testcase name="c"><failure/></testcase>
        <testcase name="d[x]"><system-out/></testcase>
    </testsuite></testsuites>"""
    assert python_suite.read_report(report) == {
        "a": FAILED,
        "b": LEFT_OUT,
        "c": FAILED,
        "d[x]": PASSED,
    }


def test_the_table_of_librdkafka_is_read_without_tests_of_other_parts() -> None:
    table = """TEST 2026 (bare, scenario default) SUMMARY
|\x1b[32m <MAIN>                |     PASSED |   0.000s \x1b[0m|
|\x1b[32m 0001_multiobj         |     PASSED |   1.000s \x1b[0m|
|\x1b[36m 0002_unkpart          |    SKIPPED |   0.000s \x1b[0m| included in TESTS_SKIP list
|\x1b[36m 0016_client_swname    |    SKIPPED |   0.000s \x1b[0m| KAFKA_PATH missing
|\x1b[31m 0077_compaction       |     FAILED |   0.000s \x1b[0m| Invalid config <-- known issue
|\x1b[35m 0081_admin            |    RUNNING |  12.000s \x1b[0m|
|\x1b[33m 1000_unktopic         |        DNS |   0.000s \x1b[0m|
"""
    assert c_suite.read_summary(table) == {
        "0001_multiobj": PASSED,
        "0016_client_swname": LEFT_OUT,
        "0077_compaction": FAILED,
        "0081_admin": UNFINISHED,
    }


def test_every_text_of_a_suite_is_replaced_or_it_is_told_that_there_is_none(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("to 9092 and 9092")
    other.write_text("to nothing")
    go_suites.replace_in([one, other], "9092", "1234")
    assert (one.read_text(), other.read_text()) == ("to 1234 and 1234", "to nothing")
    with pytest.raises(SuiteFailed, match="nowhere"):
        go_suites.replace_in([one, other], "9092", "1234")


def test_rows_of_clients_that_were_not_run_stay(tmp_path: Path) -> None:
    path = tmp_path / "suites.json"
    assert with_others([{"client": "b", "passed": 1}], path) == [{"client": "b", "passed": 1}]
    path.write_text(json.dumps({"rows": [{"client": c, "passed": 0} for c in "bca"]}))
    rows = with_others([{"client": "b", "passed": 1}], path)
    assert [(row["client"], row["passed"]) for row in rows] == [("a", 0), ("b", 1), ("c", 0)]


def test_a_row_counts_what_ran_and_not_what_was_left_out() -> None:
    outcomes = {
        "a": PASSED,
        "b": FAILED,
        "c": UNFINISHED,
        "d": LEFT_OUT,
        "e": PASSED,
        "f": LEFT_OUT,
    }
    verdict = judge(outcomes, {"b": "why", "e": "why"})
    row = row_of(SUITES["franz-go"], verdict, 3)
    assert (row["passed"], row["of"], row["left_out"], row["tracebacks"]) == (2, 4, 2, 3)
    assert (row["known"], row["unexpected"], row["nodes"]) == ("b", "c, e", 3)


def test_tracebacks_are_counted_in_every_log(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    text = "a line\nTraceback (most recent call last):\n  File\n"
    one.write_text(text * 2)
    other.write_bytes(b"\xff" + text.encode())
    assert tracebacks([one, other]) == 3
    assert tracebacks([]) == 0


def test_a_command_that_fails_or_is_missing_ends_the_suite(tmp_path: Path) -> None:
    with pytest.raises(SuiteFailed, match="is not installed"):
        call(["no-such-command"], cwd=tmp_path, seconds=5)
    with pytest.raises(SuiteFailed, match="the source: no such thing"):
        fetched(
            call(["sh", "-c", "echo no such thing >&2; exit 3"], cwd=tmp_path, seconds=60),
            "the source",
        )


def test_every_known_failure_says_why() -> None:
    assert all(why.strip() for suite in SUITES.values() for why in suite.known.values())


class Stoppable:
    """A node that can be stopped and started; it does not come back where it must not."""

    def __init__(self, comes_back: bool) -> None:
        self.is_running = True
        self.comes_back = comes_back
        self.starts = 0

    def stop(self) -> int:
        assert self.is_running
        self.is_running = False
        return 0

    def start(self) -> float:
        assert not self.is_running
        if not self.comes_back:
            raise NodeFailed("no place on the disk")
        self.is_running = True
        self.starts += 1
        return 0.1


def test_the_docker_of_a_suite_stops_and_starts_nodes(tmp_path: Path) -> None:
    nodes: dict[int, Any] = {3: Stoppable(comes_back=True), 4: Stoppable(comes_back=False)}

    def docker(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(commands / "docker"), *words], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr.strip()

    with containers(tmp_path / "commands", nodes) as commands:
        for _ in range(2):  # what is stopped is left as it is
            assert docker("compose", "stop", "kafka-3") == (0, "")
            assert not nodes[3].is_running
        for _ in range(2):
            assert docker("compose", "start", "kafka-3") == (0, "")
            assert (nodes[3].is_running, nodes[3].starts) == (True, 1)
        assert docker("compose", "stop", "kafka-4") == (0, "")
        assert docker("compose", "start", "kafka-4") == (1, "no place on the disk")
        for words in (["exec", "kafka-3"], ["stop", "kafka-9"], ["stop"], ["stop", "kafka-x"]):
            unknown = f"this docker does not know: compose {' '.join(words)}"
            assert docker("compose", *words) == (1, unknown)
        assert docker("ps")[0] == 1
        nodes[5] = object()  # fails in a way that nobody foresaw
        assert docker("compose", "stop", "kafka-5") == (1, "the node could not be asked")
