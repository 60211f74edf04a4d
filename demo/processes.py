"""Child processes that are never left behind: each runs in a session of its own.

A Spark job is a Python process, a JVM and workers that leave their process group; the session is
what they have in common, so killing a job means killing every process of its session.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 20.0


class Job:
    """One started program with all its descendants."""

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it; stdout is a pipe, stderr goes to `log`."""
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(  # noqa: S603  our own program, no shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def is_running(self) -> bool:
        """Say whether the started process itself is there."""
        return self.process.poll() is None

    def kill(self) -> int:
        """Kill every process of the session with -9. Returns how many there were."""
        members = session_members(self.process.pid)
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        deadline = time.monotonic() + STOP_SECONDS
        while session_members(self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)  # a JVM takes a moment to give its memory back
        return len(members)

    def stop(self) -> int | None:
        """End it with SIGTERM; what does not obey is killed, and None is returned."""
        code: int | None = None
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(STOP_SECONDS)
        self.kill()
        return code

    def last_words(self, lines: int = 5) -> str:
        """Return the end of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def session_members(session_id: int) -> list[int]:
    """Return the ids of all living processes of a session."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) == session_id and fields[0] != "Z":
                members.append(int(entry.name))
    return members
