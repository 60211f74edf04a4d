"""Jars from Maven Central, kept outside the repository: other clients, and other brokers."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

POMS = Path(__file__).resolve().parents[1] / "tests" / "compat" / "java"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
DOWNLOAD_SECONDS = 600


@functools.cache
def jars(project: str) -> tuple[Path, ...] | str:
    """Return the jars of tests/compat/java/<project>, or the reason why there are none."""
    if shutil.which("java") is None:
        return "java is not installed"
    target = CACHE / project
    pom = POMS / project / "pom.xml"
    stamp = target / "complete"
    if not (stamp.exists() and stamp.read_bytes() == pom.read_bytes()):
        reason = _download(pom, target)
        if reason is not None:
            return reason
        stamp.write_bytes(pom.read_bytes())
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
