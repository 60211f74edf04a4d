"""Jars from Maven Central, kept outside the repository, and Kafka's command line tools in them."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

POMS = Path(__file__).parent / "java"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
DOWNLOAD_SECONDS = 600
TOOL_SECONDS = 60

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


@functools.cache
def jars(project: str) -> tuple[Path, ...] | str:
    """Return the jars of tests/compat/java/<project>, or the reason why there are none."""
    if shutil.which("java") is None:
        return "java is not installed"
    target = CACHE / project
    pom = POMS / project / "pom.xml"
    stamp = target / "complete"
    if not (stamp.exists() and stamp.stat().st_mtime >= pom.stat().st_mtime):
        reason = _download(pom, target)
        if reason is not None:
            return reason
        stamp.touch()
    return tuple(sorted(target.glob("*.jar")))


def _download(pom: Path, target: Path) -> str | None:
    maven = shutil.which("mvn")
    if maven is None:
        return "maven (mvn) is not installed"
    shutil.rmtree(target, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"maven did not end in {DOWNLOAD_SECONDS} s"
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
        return f"maven failed: {(lines or ['no message'])[0][:300]}"
    return None


def jars_or_skip(project: str) -> tuple[Path, ...]:
    """Return the jars, or skip the test with the reason."""
    found = jars(project)
    if isinstance(found, str):
        pytest.skip(found)
    return found


def tool(name: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
    """Run one of Kafka's tools; return what it printed. `check` asserts that it succeeded."""
    class_path = ":".join(str(jar) for jar in jars_or_skip("kafka-tools"))
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    done = subprocess.run(
        [*command, "-cp", class_path, TOOLS[name], *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    printed = done.stdout + done.stderr
    if check:
        assert done.returncode == 0, f"{name} {' '.join(arguments)}: {printed}"
    return printed
