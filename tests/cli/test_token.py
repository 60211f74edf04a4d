"""`penstock token`, against a running node, and the commands of who logs in by a token."""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.node import NodeProcess
from harness.ports import free_port

pytestmark = pytest.mark.process


class Place:
    """A node where alice may do everything, bob nothing, and clients' files."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        for name, text in (("users", "alice:pa\nbob:pb\n"), ("secret", "s" * 40)):
            (directory / name).write_text(text)
            (directory / name).chmod(0o600)
        self.node = NodeProcess(
            directory / "node",
            settings={
                "node": {"listeners": [f"SAFE://127.0.0.1:{self.port}"]},
                "security": {
                    "listener_security_protocol_map": ["SAFE:SASL_PLAINTEXT"],
                    "scram_first_users_file": str(directory / "users"),
                    "delegation_token_secret_file": str(directory / "secret"),
                },
                "access": {"authorizer": "acl", "super_users": ["User:alice"]},
            },
        )
        self.config("alice", "pa")
        self.config("bob", "pb")

    def config(self, user: str, password: str, *more: str) -> None:
        lines = [
            "security.protocol = SASL_PLAINTEXT",
            "sasl.mechanism = SCRAM-SHA-256",
            f"sasl.username = {user}",
            f"sasl.password = {password}",
            *more,
        ]
        (self.directory / user).write_text("\n".join(lines))

    def run(self, user: str, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            [
                sys.executable, "-m", "penstock.cli.main",
                "--client-config", str(self.directory / user), *arguments,
                "--bootstrap", f"127.0.0.1:{self.port}",
            ],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert bool(done.returncode) is fails, done.stderr
        return done.stderr if fails else done.stdout

    def rows(self, user: str, *arguments: str) -> Any:
        return json.loads(self.run(user, "token", *arguments, "-o", "json"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("token"))
    with place.node:
        yield place


def test_a_token_is_made_listed_renewed_and_ended(place: Place) -> None:
    file = place.directory / "password"
    (made,) = place.rows(
        "alice", "create", "--renewer", "bob", "--lifetime", "3600", "--password-file", str(file)
    )
    assert "password" not in made
    assert made["ends"] - made["issued"] == 3_600_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "there already" in place.run(
        "alice", "token", "create", "--password-file", str(file), fails=True
    )
    assert place.rows("bob", "list") == [made]
    assert place.rows("alice", "list", "--owner", "bob") == [made], "of those that bob may renew"
    token = made["token"]
    assert "is good until" in place.run("bob", "token", "renew", token, "--period", "60")
    (renewed,) = place.rows("alice", "list")
    assert renewed["expires"] < made["expires"]

    place.config(token, file.read_text().strip(), "sasl.tokenauth = true")
    assert place.run(token, "topic", "list")
    assert "only who has proved a password" in place.run(token, "token", "list", fails=True)

    assert "is gone" in place.run("bob", "token", "expire", token)
    assert place.rows("alice", "list") == []
    assert "no delegation token" in place.run("alice", "token", "renew", token, fails=True)
    assert "does not let this client in" in place.run(token, "topic", "list", fails=True)


def test_a_token_of_somebody_else_needs_permission(place: Place) -> None:
    assert "CreateTokens" in place.run("bob", "token", "create", "--owner", "alice", fails=True)
    (made,) = place.rows("alice", "create", "--owner", "bob")
    assert (made["owner"], made["requester"]) == ("bob", "alice")
    assert len(made["password"]) == 88
    assert place.run("bob", "token", "expire", made["token"], "--period", "5")
    table = place.run("alice", "token", "list")
    assert made["token"] in table
    assert made["password"] not in table
    assert "is gone" in place.run("alice", "token", "expire", made["token"])
