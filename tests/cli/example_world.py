"""A cluster in which the examples of `--help` can run as they are printed, and what they talk of.

Four nodes of `penstock up --secure --rocketmq`, with audit, clients' metrics and a store of the
tier, since there are examples of all of them. Places and addresses that a machine of its own would
have are replaced: `/etc/penstock`, `/archive`, `node-1:9404`. Nothing else of an example is.
"""

import contextlib
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from harness.http_front import TOKENS
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS
from tests.cli.launched import PENSTOCK, Launched, launched

NODES = 4
"""The fourth is in no replica set and has no vote at first: examples add it, and take it away."""
TOKEN_ID = "3374b3-f5hmnu22TRSbk_A0hJQgMQ"
CLIENT_CONFIG = "client.properties"
ORDERS = "id,what\n1,tea\n2,cups\n"
SECRET_MODE = 0o600


class Ran(NamedTuple):
    """What became of a line."""

    code: int
    out: str
    errors: str


class World:
    """A directory, its cluster, and lines that run there as a shell would run them."""

    def __init__(self, directory: Path, up: Launched, ports: dict[str, int]) -> None:
        self.directory, self.up, self.ports = directory, up, ports
        ready = dict(part.split("=", 1) for part in shlex.split(up.ready_line)[1:])
        self.bootstrap = ready["bootstrap"]
        self._write_files(ready)

    def _write_files(self, ready: dict[str, str]) -> None:
        password = Path(ready["password-file"]).read_text().strip()
        client = (
            f"security.protocol=SASL_SSL\nssl.ca.location={ready['ca']}\n"
            f"sasl.mechanism=SCRAM-SHA-512\nsasl.username={ready['user']}\n"
            f"sasl.password={password}\n"
        )
        secrets = {CLIENT_CONFIG: client, "reader.password": "a-password\n", "tokens.toml": TOKENS}
        for name, text in secrets.items():
            (self.directory / name).touch(SECRET_MODE)
            (self.directory / name).write_text(text)
        (self.directory / "lines.txt").write_text("hello\nworld\n")
        (self.directory / "orders.csv").write_text(ORDERS)

    def placed(self, line: str) -> str:
        """Return the line with the places and addresses of this world."""
        metrics = self.ports["metrics"]
        names = {
            "/etc/penstock/": f"{self.directory}/penstock-data/node-1/",
            "/archive/": f"{self.directory}/archive/",
            "/tmp/cluster": f"{self.directory}/penstock-data",
            **{f"node-{one + 1}:9404": f"127.0.0.1:{metrics + one}" for one in range(NODES)},
            "10.0.0.4:9093": f"127.0.0.1:{self.up.port + 100 + NODES - 1}",
        }
        for name, here in names.items():
            line = line.replace(name, here)
        return line.replace(TOKEN_ID, self.token()) if TOKEN_ID in line else line

    def token(self) -> str:
        """Return the id of a new token."""
        made = self.run("penstock token create --renewer yarn -o json")
        assert made.code == 0, made
        return str(json.loads(made.out)[0]["token"])

    @contextlib.contextmanager
    def open_transaction(self, transactional_id: str) -> Iterator[None]:
        """A transaction that is open meanwhile; somebody else may end it."""
        lines = (self.directory / CLIENT_CONFIG).read_text().splitlines()
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                **dict(line.split("=", 1) for line in lines),
            }
        )
        producer.init_transactions(UNTIL_SECONDS)
        producer.begin_transaction()
        producer.produce("orders", b"half")
        assert producer.flush(UNTIL_SECONDS) == 0
        yield
        with contextlib.suppress(KafkaException):  # it was aborted
            producer.abort_transaction(UNTIL_SECONDS)

    def run(self, line: str, within: str = "") -> Ran:
        """Run a line: within this process where no shell is needed, which is quicker."""
        words = shlex.split(line)
        if {"|", "<"} & set(words) or words[0] != "penstock":
            return self._shell(line, within)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.directory / within)
            for name, value in self._environment.items():
                patch.setenv(name, value)
            return Ran(*self.up.try_to_run(*words[1:]))

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PENSTOCK_BOOTSTRAP": self.bootstrap,
            "PENSTOCK_CLIENT_CONFIG": str(self.directory / CLIENT_CONFIG),
            "PATH": f"{Path(PENSTOCK[0]).parent}:{os.environ['PATH']}",
        }

    def _shell(self, line: str, within: str) -> Ran:
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.directory / within,
            env=os.environ | self._environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=UNTIL_SECONDS,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def begin(self, line: str) -> subprocess.Popen[str]:
        """Start a line that runs until it is ended."""
        return subprocess.Popen(
            [*PENSTOCK, *shlex.split(line)[1:]],
            cwd=self.directory,
            env=os.environ | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextlib.contextmanager
def example_world(directory: Path) -> Iterator[World]:
    """The world for the length of a `with`. The fourth node comes when sets have members."""
    secret = directory / "token-secret"
    secret.touch(SECRET_MODE)
    secret.write_text("s" * 40)
    ports = {name: free_port(NODES) for name in ("metrics", "remoting", "grpc")}
    settings = (
        f"remoting.port={ports['remoting']}",
        f"grpc.port={ports['grpc']}",
        "broker.audit=true",
        "broker.client_metrics=true",
        "log.level0_bytes=1000000",
        f"tier.url=file://{directory}/store",
        "controller.tiered_topics=true",
        f"security.delegation_token_secret_file={secret}",
    )
    (directory / "store").mkdir()
    options = ["--secure", "--rocketmq", "--metrics-port", str(ports["metrics"])]
    for one in settings:
        options += ["--set", one]
    data = directory / "penstock-data"
    with launched(data, "--nodes", str(NODES - 1), *options) as first:
        port = first.port
    with launched(data, "--nodes", str(NODES), *options, port=port) as up:
        yield World(directory, up, ports)
