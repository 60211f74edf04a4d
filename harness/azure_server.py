"""A server of Azure Blob Storage in a process of its own: Azurite, from the npm registry.

The package is installed once, and kept outside the repository. Azurite is Microsoft's emulator, and
no storage account. It writes its books every few seconds: whoever kills it takes what was put last.
"""

import base64
import functools
import hashlib
import hmac
import http.client
import shutil
import signal
import subprocess
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.maven import CACHE
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until

PACKAGE = "azurite@3.35.0"
"""Later ones need Node.js 21."""
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
INSTALL_SECONDS = 270
"""Below the time-out of a test."""
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Those that Azurite has, and its documents name."""
OTHER_KEY = base64.b64encode(b"of nobody").decode()
API_VERSION = "2023-11-03"


@functools.cache
def program() -> Path | str:
    """Return the server's program, or the reason why there is none."""
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    target = CACHE / PACKAGE.replace("@", "-")
    main = target / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    stamp = target / "complete"
    if stamp.exists():
        return main
    target.mkdir(parents=True, exist_ok=True)
    command = [*INSTALL, "--prefix", str(target), PACKAGE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"npm did not end in {INSTALL_SECONDS} s"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        return f"npm failed: {(lines or ['no message'])[0][:300]}"
    stamp.touch()
    return main


class AzureServer:
    """A server with one container, `tier`, and its data below `path`."""

    def __init__(self, main: Path, path: Path) -> None:
        self._main = main
        self.path = path
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where the account is, as settings name it."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._start()
        self._make_container("tier")
        return self

    def _start(self) -> None:
        command = ["node", str(self._main), "--blobHost", "127.0.0.1", "--blobPort"]
        command += [str(self.port), "--location", str(self.path / "data")]
        command += ["--silent", "--disableTelemetry"]
        with (self.path / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        assert wait_until(self._answers, UNTIL_SECONDS), (self.path / "log").read_text()

    def stand_still(self) -> None:
        """Answer nothing, with all connections open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            return self._asked("GET", "/", {}) > 0
        except OSError:
            return False

    def _make_container(self, name: str) -> None:
        path, date = f"/{ACCOUNT}/{name}", formatdate(usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": API_VERSION}
        lines = [f"{key}:{value}" for key, value in headers.items()]
        signed = ["PUT", *[""] * 11, *lines, f"/{ACCOUNT}{path}", "restype:container"]
        digest = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256)
        signature = base64.b64encode(digest.digest()).decode()
        headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
        status = self._asked("PUT", f"{path}?restype=container", headers)
        assert status == http.client.CREATED, status

    def _asked(self, method: str, path: str, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=UNTIL_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            with connection.getresponse() as response:
                return response.status
        finally:
            connection.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
