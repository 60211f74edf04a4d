"""Share groups read by Kafka's own performance tool, the same Java client for every server.

A group needs seconds to form, which depend on when its members say that they are there. So the rate
is taken from the tool's reports, from the first one with records to the last.

Source: `org.apache.kafka.tools.ShareConsumerPerformance` (kafka-share-consumer-perf-test).
"""

import re
import subprocess
from collections.abc import Iterable
from datetime import datetime
from itertools import count

from benchmarks.peers.model import CanNotRun
from harness.maven import jars
from harness.share_groups import configure_group

TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
REPORT_MS = 20
TOOL_SECONDS = 600
SILENT_MS = 30_000
_REPORT = re.compile(
    r"^[\d-]+ [\d:]+, ([\d-]+ [\d:]+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+ for share"
)
_TIME = "%Y-%m-%d %H:%M:%S:%f"
_numbers = count()


def share_consume(bootstrap: str, topic: str, records: int) -> float:
    """Read so many records with one member; returns records per second.

    Raises CanNotRun.
    """
    found = jars("kafka-tools")
    if isinstance(found, str):
        raise CanNotRun(found)
    group = f"bench-shares-{next(_numbers)}"
    configure_group(bootstrap, group)
    command = [
        *("java", "-Xmx512m", "-cp", ":".join(str(jar) for jar in found), TOOL),
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--messages", str(records), "--timeout", str(SILENT_MS)),
        *("--show-detailed-stats", "--reporting-interval", str(REPORT_MS)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise CanNotRun(f"the share consumer ended with {done.returncode}: {done.stderr[-300:]}")
    return rate(done.stdout.splitlines(), records)


def rate(lines: Iterable[str], records: int) -> float:
    """Return the records per second that the tool's reports tell; too few raise CanNotRun."""
    told = [
        (datetime.strptime(found[1], _TIME).timestamp(), int(found[2]))  # noqa: DTZ007  one clock
        for found in map(_REPORT.match, lines)
        if found is not None
    ]
    moving = [one for one in told if one[1] > 1]
    if len(moving) < 2 or moving[-1][0] <= moving[0][0]:
        raise CanNotRun(f"only {len(moving)} reports of {records} records")
    (begun, first), (ended, last) = moving[0], moving[-1]
    return (last - first) / (ended - begun)
