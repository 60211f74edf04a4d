"""What an operator does to a cluster: the command itself, in a process of its own."""

import subprocess
import sys
from pathlib import Path

from harness.cluster import ClusterProcess

COMMAND_SECONDS = 120


class CommandRefused(Exception):
    """A command that had to succeed did not; the text is what it said."""


def transfer(cluster: ClusterProcess, set_id: int, target: int) -> str:
    """Run `penstock set transfer`; returns what it printed. Raises CommandRefused."""
    penstock = Path(sys.executable).with_name("penstock")
    config = next(iter(cluster.processes.values())).config
    command = [str(penstock), "set", "transfer", str(set_id), "--to", str(target)]
    done = subprocess.run(
        [*command, "--config", str(config)],
        check=False,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode:
        raise CommandRefused(f"{' '.join(command[1:])}: {done.stderr or done.stdout}")
    return done.stdout


def transfer_all(cluster: ClusterProcess, broker_id: int) -> None:
    """Move every mastership away from a broker, each to the next member in step."""
    for one in cluster.status()["sets"]:
        if one["master"] == broker_id:
            others = [peer for peer in one["sync_state_set"] if peer != broker_id]
            transfer(cluster, one["replica_set_id"], others[0])
