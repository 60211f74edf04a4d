"""Starts Spark for `penstock land`, with the same settings on a laptop and on a cluster.

Only the master URL differs. On a cluster the package is shipped as a zip (`addPyFile`), so that
executors need Python with pyarrow, crc32c, cramjam and kio, but not Penstock itself. The compiled
decoder can not be imported from a zip: its Python twin is used there, unless the package is
installed on the workers.

The JVM's stderr goes to a log file, for troubleshooting.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m"
"""The serial collector and the quick compiler: our rows do not pass through the JVM, and it starts
in two thirds of the time."""
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.faulthandler.enabled": "true",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JVM_OPTIONS,
}


def check_java() -> None:
    """Raise SparkUnavailable if no Java is found."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if home:  # Spark goes by it, whatever stands in PATH
        raise SparkUnavailable(
            f"JAVA_HOME is {home}, which has no bin/java: unset it, or name a Java 17 or newer"
        )
    if shutil.which("java") is None:
        raise SparkUnavailable(
            "Spark needs Java 17 or newer: sudo apt-get install default-jre-headless"
        )


def check_classic(master: str, settings: Mapping[str, str]) -> None:
    """Raise SparkUnavailable where PySpark would be a client of Spark Connect, without tasks."""
    given = os.environ | settings
    remote = given.get("spark.remote") or given.get("SPARK_REMOTE")
    mode = given.get("spark.api.mode") or given.get("SPARK_API_MODE") or ""
    if master.startswith("sc://"):
        why = f"the master is {master}"
    elif remote:
        why = f"spark.remote or SPARK_REMOTE is {remote}"
    elif mode.lower() == "connect" or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        why = "spark.api.mode or SPARK_API_MODE is connect"
    else:
        return
    raise SparkUnavailable(
        f"a landing has tasks of its own, which Spark Connect does not run ({why}): unset that, and"
        " give the cluster itself, as in --master spark://HOST:7077"
    )


@contextlib.contextmanager
def spark_session(
    name: str, master: str, settings: Mapping[str, str], log: Path
) -> Iterator["SparkSession"]:
    """Start a session, and stop it at the end. Raises SparkUnavailable."""
    check_java()
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  one second, and it may be absent
    except ImportError as error:
        raise SparkUnavailable("PySpark is missing: pip install 'penstock[spark]'") from error
    _quiet_python_logs()
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Otherwise the JVM looks up the host's name, and does not start if that does not resolve.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "spark.pyspark.python" in settings:
        # spark-submit passes this setting to Python in the environment; nothing else reads it.
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    chosen = _SETTINGS | (_LOCAL_SETTINGS if is_local else {}) | dict(settings)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with interrupt_held() as interrupt:
        try:
            with _stderr_to(log):
                spark = builder.getOrCreate()
        except Exception as error:
            text = f"Spark did not start ({_first_line(error)}), see {log}"
            raise SparkUnavailable(text) from error
    try:
        interrupt.check()
        spark.sparkContext.setLogLevel("ERROR")
        _quiet_accumulators(spark)
        with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
            if not is_local:
                spark.sparkContext.addPyFile(str(package_zip(Path(scratch))))
            yield spark
    finally:
        _stop(spark)


class HeldInterrupt:
    """Records Ctrl-C while it is held back; the first one is acknowledged on stderr at once."""

    def __init__(self, stderr: int) -> None:
        self.came = False
        self._stderr = stderr

    def note(self, _number: int, _frame: object) -> None:
        if not self.came:
            os.write(self._stderr, b"penstock land: ends as soon as Spark has started\n")
        self.came = True

    def check(self) -> None:
        """Raise the KeyboardInterrupt that was held back, if any."""
        if self.came:
            raise KeyboardInterrupt


@contextlib.contextmanager
def interrupt_held() -> Iterator[HeldInterrupt]:
    """Hold back Ctrl-C until the end of the `with`.

    If PySpark is interrupted while it starts the JVM, it removes the file that the JVM is about to
    write, and a JVM that can not write that file never ends.
    """
    stderr = os.dup(2)  # during the start descriptor 2 is Spark's log
    held = HeldInterrupt(stderr)
    before = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and callable(before)
    if is_ours:
        signal.signal(signal.SIGINT, held.note)
    try:
        yield held
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
        os.close(stderr)


def _stop(spark: "SparkSession") -> None:
    """Stop the session and its JVM. It is no error if the JVM has already ended."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001  PySpark has no public way to end the JVM
    with contextlib.suppress(Exception):
        spark.stop()
    process = getattr(gateway, "proc", None)
    if isinstance(process, subprocess.Popen):
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _quiet_accumulators(spark: "SparkSession") -> None:
    """Suppress the stack trace of PySpark's socket server if the JVM ends before it."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _quiet_python_logs() -> None:
    """Suppress py4j's log lines about connections that a stop or a kill has closed."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.ERROR)


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect stderr to `log` for processes started inside, and restore ours afterwards."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def package_zip(directory: Path) -> Path:
    """Make a zip of the package's Python files in `directory`."""
    root = Path(penstock.__file__).parent
    target = directory / "penstock.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, Path("penstock") / path.relative_to(root))
    return target


def _first_line(error: Exception) -> str:
    """Return the first line with the cause: py4j's first line only names the call."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip(": ")]
    telling = [line for line in lines if not line.startswith("An error occurred")]
    return (telling or lines or [type(error).__name__])[0]
