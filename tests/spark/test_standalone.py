"""The cluster that tests of Spark start knows its executors from what else its workers leave."""

import subprocess
import sys
from pathlib import Path

import psutil

from harness.waiting import wait_until
from tests.spark.standalone import StandaloneCluster

WORKER = """
import os, subprocess, sys, time
if not os.fork():
    os._exit(0)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""
UNTIL_SECONDS = 30.0


def test_a_zombie_that_the_shell_of_a_worker_has_left_is_no_executor(tmp_path: Path) -> None:
    cluster = StandaloneCluster(tmp_path)
    master, worker = (subprocess.Popen([sys.executable, "-c", WORKER]) for _ in range(2))
    cluster._processes = [master, worker]
    try:
        children = psutil.Process(worker.pid).children

        def are_both_there() -> bool:
            states = [one.status() for one in children()]
            return len(states) == 2 and states.count(psutil.STATUS_ZOMBIE) == 1

        assert wait_until(are_both_there, UNTIL_SECONDS)
        [executor] = cluster.executors()
        assert executor.status() != psutil.STATUS_ZOMBIE
        assert executor.ppid() == worker.pid
    finally:
        cluster._end()
