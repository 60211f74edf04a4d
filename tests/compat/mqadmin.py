"""RocketMQ's stock mqadmin, several commands in one JVM."""

import subprocess
from pathlib import Path

from tests.compat.java_tools import jars_or_skip

SOURCE = Path(__file__).with_name("MqAdmin.java")
SECONDS = 180
_SERVERS = ("rocketmq-broker", "rocketmq-namesrv", "rocketmq-proxy")
"""Jars whose set-up of the log prints a hundred lines."""
_END = "\n@end\n"


def mqadmin(home: Path, name_servers: str, *commands: str) -> list[str]:
    """Run commands; return what each has printed, without empty lines and traces of the stack."""
    jars = [jar for jar in jars_or_skip("rocketmq") if not jar.name.startswith(_SERVERS)]
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    java += ["-Dfile.encoding=UTF-8", f"-Duser.home={home}", "-cp", ":".join(map(str, jars))]
    done = subprocess.run(
        [*java, str(SOURCE)],
        input="".join(f"{command} -n {name_servers}\n" for command in commands),
        capture_output=True,
        timeout=SECONDS,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    *printed, rest = done.stdout.split(_END)
    assert (len(printed), rest) == (len(commands), ""), done.stdout[-2000:]
    return [_readable(one) for one in printed]


def _readable(printed: str) -> str:
    lines = (line.rstrip() for line in printed.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("\tat ", "\t...")))
