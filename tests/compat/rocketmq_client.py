"""RocketMQ's stock Java client, run with words that say what it is to do."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.compat.java_tools import jars_or_skip

SOURCE = Path(__file__).with_name("RemotingClients.java")
CLIENT_SECONDS = 120


def client(home: Path, *words: object) -> list[dict[str, Any]]:
    """Run the stock client with these words; return what it has told."""
    class_path = ":".join(map(str, jars_or_skip("rocketmq")))
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-Dfile.encoding=UTF-8", f"-Duser.home={home}", "-cp", class_path, str(SOURCE)]
    done = subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("@")]
