"""A failed fsync fences the log for good: nothing is acknowledged after it until a restart."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.loop_disk import lying_disk
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from tests.integration.clients import acked, errors, send

pytestmark = pytest.mark.process


@contextmanager
def failing_sync(pid: int) -> Iterator[None]:
    """Let every fsync and fdatasync of the process fail with EIO while the context lasts."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    calls = "fsync,fdatasync"
    command = [strace, "-f", "-p", str(pid), "-o", "/dev/null", "-e", f"trace={calls}"]
    tracer = subprocess.Popen(
        [*command, "-e", f"inject={calls}:error=EIO"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert tracer.stderr is not None
        if "attached" not in tracer.stderr.readline():
            pytest.skip("strace may not attach here")
        # strace reports the first thread, and attaches to the rest after it.
        assert wait_until(lambda: _are_all_traced(pid), UNTIL_SECONDS)
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=UNTIL_SECONDS)


def _are_all_traced(pid: int) -> bool:
    """Whether every thread of the process has a tracer."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all("TracerPid:\t0\n" not in (thread / "status").read_text() for thread in threads)


def test_after_a_failed_fsync_nothing_is_acknowledged_until_a_restart(node: NodeProcess) -> None:
    create_topic(node.bootstrap, "fenced", 1)
    kept = acked(send(node.bootstrap, "fenced", [b"before-%d." % n for n in range(50)]))
    assert len(kept) == 50
    with failing_sync(node.pid):
        assert acked(send(node.bootstrap, "fenced", [b"during."])) == []
    assert acked(send(node.bootstrap, "fenced", [b"after."])) == []
    node.restart()
    polls = read_all(node.bootstrap, "fenced", 1)
    values = [str(value).encode() + b"." for poll in polls for _, value in poll.records]
    assert values[:50] == kept
    assert acked(send(node.bootstrap, "fenced", [b"restarted."])) == [b"restarted."]


@pytest.mark.usefixtures("loop_disks")
def test_a_disk_whose_medium_is_full_behind_its_back_fences_the_log(tmp_path: Path) -> None:
    settings = {"log": {"segment_bytes": 8 << 20}}
    with (
        lying_disk(tmp_path, room_mib=48, size_mib=512) as disk,
        NodeProcess(tmp_path / "node", data=disk.mount_point / "data", settings=settings) as node,
    ):
        create_topic(node.bootstrap, "fenced", 1)

        def is_refused() -> bool:
            answers = send(node.bootstrap, "fenced", [b"x" * 60_000 for _ in range(100)])
            return bool(errors(answers))

        assert wait_until(is_refused, UNTIL_SECONDS)
        assert acked(send(node.bootstrap, "fenced", [b"later"])) == []
