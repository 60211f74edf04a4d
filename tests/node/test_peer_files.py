"""Files that peers prove themselves with are read again when they change."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.node.machine import Machine, real_machine
from penstock.node.peers import PeerFiles
from penstock.node.settings.cluster_config import ClusterConfig

OLD, NEW = b"an old secret of the tests", b"a new secret of the tests"


class Looks:
    """A scheduler whose only call is made by hand."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def call_later(self, _delay_ms: int, callback: object, *_arguments: object) -> "Looks":
        self.calls.append(callback)
        return self

    def cancel(self) -> None:
        self.calls.clear()

    def pass_time(self) -> None:
        (callback,) = self.calls
        self.calls.clear()
        callback()  # type: ignore[operator]


def _write(path: Path, secret: bytes) -> None:
    path.write_bytes(secret + b"\n")
    path.chmod(0o600)


def _files(path: Path, looks: Looks) -> PeerFiles:
    async def made() -> PeerFiles:
        machine: Machine = replace(real_machine(asyncio.get_running_loop()), scheduler=looks)  # type: ignore[arg-type]
        return PeerFiles(ClusterConfig(secret_file=str(path)), machine)

    files = asyncio.run(made())
    files.follow()
    return files


def test_a_secret_is_replaced_in_three_steps(tmp_path: Path) -> None:
    path, looks = tmp_path / "secret", Looks()
    _write(path, OLD)
    files = _files(path, looks)
    first = files.security.keys
    _write(tmp_path / "secret.next", NEW)
    looks.pass_time()
    assert (files.security.credentials.secret, files.security.credentials.others) == (OLD, (NEW,))
    assert files.security.keys[:1] == first
    path.rename(tmp_path / "secret.old")
    (tmp_path / "secret.next").rename(path)
    looks.pass_time()
    assert (files.security.credentials.secret, files.security.credentials.others) == (NEW, (OLD,))
    (tmp_path / "secret.old").unlink()
    looks.pass_time()
    assert (files.security.credentials.secret, files.security.credentials.others) == (NEW, ())


@pytest.mark.parametrize("broken", ["short", "readable", "gone"])
def test_a_change_that_can_not_be_used_leaves_what_was_there_and_is_said(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, looks = tmp_path / "secret", Looks()
    _write(path, OLD)
    files = _files(path, looks)
    if broken == "gone":
        path.unlink()
    else:
        _write(tmp_path / "secret.next", NEW[:4] if broken == "short" else NEW)
    if broken == "readable":
        (tmp_path / "secret.next").chmod(0o644)
    looks.pass_time()
    assert (files.security.credentials.secret, files.security.credentials.others) == (OLD, ())
    assert "a changed file is not used" in caplog.text
    _write(path, OLD)
    _write(tmp_path / "secret.next", NEW)
    looks.pass_time()
    assert files.security.credentials.others == (NEW,)


def test_unchanged_files_leave_the_credentials_alone(tmp_path: Path) -> None:
    path, looks = tmp_path / "secret", Looks()
    _write(path, OLD)
    files = _files(path, looks)
    before = files.security.credentials
    looks.pass_time()
    assert files.security.credentials is before
    files.stop()
    assert looks.calls == []


def test_a_process_does_not_start_with_a_second_secret_that_can_not_be_used(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    _write(path, OLD)
    _write(tmp_path / "secret.old", b"short")
    with pytest.raises(ConfigError, match=r"secret\.old holds 5 bytes"):
        _files(path, Looks())
