"""Chaos with real processes: its report, and a planted bug that is found.

The faults themselves: `make chaos`, which continuous integration runs as well; see docs/chaos.md.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.loop_disk import LoopDisk
from reliability.faults import chaos_world

pytestmark = [pytest.mark.process, pytest.mark.long]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def world() -> None:
    """Skip, with the reason, where there can be no hosts of their own."""
    reason = chaos_world.why_not()
    if reason is not None:
        pytest.skip(reason)


def chaos(target: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    command = [sys.executable, "-m", "reliability.chaos", "--seed", "7", *words]
    places = ["--report", str(target / "report"), "--totals", str(target / "chaos.json")]
    done = subprocess.run(
        [*command, *places], cwd=ROOT, capture_output=True, text=True, timeout=550, check=False
    )
    report = target / "report" / "report.json"
    return done, json.loads(report.read_text()) if report.exists() else {}


def left_behind() -> list[str]:
    """Return what is outside of namespaces, besides kept logs, and names a run that has ended."""
    found = chaos_world.clean(has_files=False)
    chaos_world.clean()
    return found


@pytest.mark.usefixtures("world")
def test_acknowledgements_before_the_disk_has_the_records_are_found_out(tmp_path: Path) -> None:
    words = ("--kinds", "power-all", "--faults", "1", "--layout", "combined", "--plant-async")
    done, report = chaos(tmp_path, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    found = report["rounds"][0]
    assert found["lost"] + found["changed or vanished"] > 0  # what readers saw before it was lost
    broken = done.stdout.rpartition("layout combined, seed 7-0:")[2]
    assert found["problems"][0] in broken
    assert left_behind() == []


@pytest.mark.usefixtures("world")
def test_a_world_keeps_no_disk_of_others_from_coming_back(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=16) as disk:
        command = [*chaos_world.BEGIN, "--", "sh", "-c", "echo begun; read end"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as world:
            assert world.stdin is not None
            assert world.stdout is not None
            assert world.stdout.readline() == b"begun\n"
            disk.cut_power()
            disk.unmount()
            disk.mount()
            (disk.mount_point / "file").write_text("there is power")
            world.stdin.close()


def test_without_hosts_of_their_own_processes_are_killed_and_the_rest_is_skipped(
    tmp_path: Path,
) -> None:
    words = ("--loopback", "--kinds", "stop-leader,ring", "--faults", "1", "--layout", "combined")
    done, report = chaos(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped: ring: " in done.stdout
    assert [one["scenario"] for one in report["scenarios"]] == ["stop-leader"]
    found = report["rounds"][0]
    assert (found["verdict"], found["problems"]) == ("ok", [])
    assert [one["scenario"] for one in found["fault list"]] == ["stop-leader"]
    # What was written as its answer was lost is delivered too.
    assert found["sent"] >= found["delivered"] >= found["acknowledged"] > 0
    assert set(found["acknowledged by client"]) == {"librdkafka", "kafka-python", "aiokafka"}
    assert found["equal MB"] > 0
    assert "<svg" in (tmp_path / "report" / "report.html").read_text()


def test_clients_of_every_kind_come_in_over_tls_through_kills(tmp_path: Path) -> None:
    words = ("--secure", "--loopback", "--kinds", "kill-both", "--faults", "1")
    done, report = chaos(tmp_path, *words, "--layout", "combined")
    assert done.returncode == 0, done.stdout + done.stderr
    found = report["rounds"][0]
    assert (found["verdict"], found["layout"]) == ("ok", "combined, TLS and SCRAM")
    assert set(found["acknowledged by client"]) == {"librdkafka", "kafka-python", "aiokafka"}
    assert all(found["acknowledged by client"].values())
