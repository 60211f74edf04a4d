"""The real disk asks the kernel for what its contract promises, in an order that a crash allows.

What a power cut leaves can not be seen from within a process. So the calls are watched, not
replaced: each is made, and noted with the path that it is about.
"""

import os
from pathlib import Path

import pytest

from penstock.runtime.io.disk import FileDisk

Call = tuple[str, str]


@pytest.fixture
def calls(tmp_path, monkeypatch) -> list[Call]:
    """What the kernel was asked for, with paths below the data directory ("." for itself)."""
    noted: list[Call] = []

    def below(path: Path) -> str:
        name = str(path.relative_to(tmp_path))
        return name.partition(".")[0] + ".tmp" if name.endswith(".tmp") else name

    def watch(name: str, which: int) -> None:
        ask = getattr(os, name)

        def asked(*arguments):
            about = arguments[which]
            path = Path(f"/proc/self/fd/{about}").readlink() if isinstance(about, int) else about
            noted.append((name, below(Path(path))))
            return ask(*arguments)

        monkeypatch.setattr(os, name, asked)

    for name, which in (("fsync", 0), ("fdatasync", 0), ("replace", 1), ("mkdir", 0)):
        watch(name, which)
    return noted


def test_sync_asks_the_kernel_for_the_data(tmp_path, calls):
    disk = FileDisk(tmp_path)
    file = disk.open("log", create=True)
    file.write(0, [b"record"])
    assert calls == []
    file.sync()
    assert calls == [("fdatasync", "log")]


def test_a_replaced_file_is_durable_before_and_after_it_gets_its_name(tmp_path, calls):
    disk = FileDisk(tmp_path)
    (tmp_path / "set").mkdir()
    calls.clear()
    disk.replace("set/vote", b"term 7")
    assert calls == [("fsync", "set/vote.tmp"), ("replace", "set/vote"), ("fsync", "set")]


def test_a_renamed_file_has_its_name_for_good(tmp_path, calls):
    disk = FileDisk(tmp_path)
    disk.replace("old", b"snapshot")
    calls.clear()
    disk.rename("old", "new")
    assert calls == [("replace", "new"), ("fsync", ".")]


def test_a_file_that_moves_to_another_directory_is_durable_in_both(tmp_path, calls):
    disk = FileDisk(tmp_path)
    disk.make_directory("install")
    disk.make_directory("log")
    disk.replace("install/segment", b"frames")
    calls.clear()
    disk.rename("install/segment", "log/segment")
    assert calls == [("replace", "log/segment"), ("fsync", "log"), ("fsync", "install")]


def test_syncing_a_directory_reaches_the_kernel(tmp_path, calls):
    disk = FileDisk(tmp_path)
    disk.make_directory("log")
    calls.clear()
    disk.sync_directory("log")
    assert calls == [("fsync", "log")]


def test_each_new_directory_is_durable_in_its_parent_before_the_next_is_made(tmp_path, calls):
    disk = FileDisk(tmp_path)
    disk.make_directory("set/log")
    assert calls == [("mkdir", "set"), ("fsync", "."), ("mkdir", "set/log"), ("fsync", "set")]
    calls.clear()
    disk.make_directory("set/log")
    assert calls == []
