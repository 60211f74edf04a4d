"""`tools/leftover.sh`: what it runs takes no CPU time that others want, and ends as a whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

LEFTOVER = Path(__file__).parents[2] / "tools/leftover.sh"
SAYS_WHERE_IT_IS = """
import json, os, pathlib
autogroup = pathlib.Path("/proc/self/autogroup")
share = autogroup.read_text() if autogroup.exists() else ""
print(json.dumps({
    "session": os.getsid(0), "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "policy": os.sched_getscheduler(0), "share": share.strip(),
}))
"""


def test_a_command_comes_last_in_its_session_and_its_session_after_all_others() -> None:
    command = [str(LEFTOVER), sys.executable, "-c", SAYS_WHERE_IT_IS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        found = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert found["session"] == process.pid != os.getsid(0)
    assert found["niceness"] == 19
    assert found["policy"] == os.SCHED_IDLE
    assert found["share"].endswith("nice 19") or not found["share"]


def test_its_exit_code_is_that_of_the_command() -> None:
    assert subprocess.run([LEFTOVER, "sh", "-c", "exit 7"], check=False).returncode == 7


def test_the_end_of_its_group_is_the_end_of_all_that_the_command_has_started() -> None:
    command = [str(LEFTOVER), "sh", "-c", "echo begun; sleep 1000 & wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.read() == b""  # nobody is left who could write
