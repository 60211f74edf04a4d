"""The real disk and its worker threads."""

import asyncio
import errno
import os
import threading

import pytest

from penstock.base.ports import Lane
from penstock.runtime.io.disk import (
    POOL_BUFFERS,
    POOLED_BYTES,
    FileDisk,
    ReadBuffers,
    ThreadOffload,
)
from tests.storage.disk_contract import DiskContract


class TestFileDisk(DiskContract):
    @pytest.fixture
    def disk(self, tmp_path):
        return FileDisk(tmp_path)


class TestFileDiskWithoutNowait(DiskContract):
    @pytest.fixture
    def disk(self, tmp_path):
        disk = FileDisk(tmp_path)
        disk.has_nowait = False
        return disk


def test_a_file_system_that_refuses_nowait_is_asked_only_once(tmp_path, monkeypatch):
    asked = []

    def refuse(*arguments):
        asked.append(arguments)
        raise OSError(errno.EOPNOTSUPP, "not here")

    disk = FileDisk(tmp_path)
    disk.has_nowait = True
    monkeypatch.setattr(os, "preadv", refuse)
    file = disk.open("a", create=True)
    file.write(0, [b"abc"])
    assert bytes(file.read_cached(0, 3) or b"") == b"abc"
    assert bytes(file.read_cached(0, 3) or b"") == b"abc"
    assert len(asked) == 1
    # Another handle has written nothing: it can not know what is in memory.
    assert disk.open("a").read_cached(0, 3) is None


def test_old_bytes_do_not_count_as_cached_without_nowait(tmp_path):
    disk = FileDisk(tmp_path)
    disk.has_nowait = False
    file = disk.open("a", create=True)
    file.write(0, [b"old"])
    file.write(40 << 20, [b"new"])
    assert file.read_cached(0, 3) is None
    assert bytes(file.read_cached(40 << 20, 3) or b"") == b"new"


def test_bytes_that_are_not_in_the_page_cache_are_not_waited_for(tmp_path, monkeypatch):
    disk = FileDisk(tmp_path)
    if not disk.has_nowait:
        pytest.skip("this system has no RWF_NOWAIT")

    def would_block(*_):
        raise BlockingIOError

    file = disk.open("a", create=True)
    file.write(0, [b"abc"])
    monkeypatch.setattr(os, "preadv", would_block)
    assert file.read_cached(0, 3) is None
    monkeypatch.setattr(os, "preadv", lambda *_: 1)
    assert file.read_cached(0, 3) is None


def test_a_failed_replace_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    disk = FileDisk(tmp_path)
    disk.replace("a", b"old")

    def fail(_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        disk.replace("a", b"new")
    assert disk.list("") == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("size", [5_000, 200_000, POOLED_BYTES])
def test_a_read_buffer_is_used_again_only_when_nobody_holds_it(size):
    buffers = ReadBuffers()
    held = [buffers.take(size) for _ in range(40)]
    for number, view in enumerate(held):
        view[:] = bytes([number]) * size
    assert all(bytes(view) == bytes([number]) * size for number, view in enumerate(held))
    first = id(held[0].obj)
    assert id(buffers.take(POOLED_BYTES).obj) not in {id(view.obj) for view in held}
    del held, view
    assert id(buffers.take(POOLED_BYTES).obj) == first


def test_when_all_buffers_are_in_use_a_small_read_holds_no_large_one():
    buffers = ReadBuffers()
    held = [buffers.take(POOLED_BYTES) for _ in range(POOL_BUFFERS)]
    assert memoryview(buffers.take(5_000).obj).nbytes == 5_000
    del held
    assert memoryview(buffers.take(5_000).obj).nbytes == POOLED_BYTES


def test_buffers_that_are_let_go_stay_with_those_who_use_them():
    buffers = ReadBuffers()
    held = buffers.take(5_000)
    held[:] = b"x" * 5_000
    buffers.shrink()
    buffers.take(5_000)[:] = b"y" * 5_000
    assert bytes(held) == b"x" * 5_000


def test_small_reads_share_one_buffer():
    buffers = ReadBuffers()
    assert buffers.take(5_000).obj is buffers.take(6_000).obj


def test_offload_gives_results_and_errors_back_on_the_loop():
    async def scenario():
        loop = asyncio.get_running_loop()
        offload = ThreadOffload(loop, name="disk", threads=2)
        answers = []
        finished = asyncio.Event()

        def done(result, error):
            answers.append((result, error))
            if len(answers) == 2:
                finished.set()

        failure = ValueError("no")

        def fail():
            raise failure

        offload.submit(lambda: 42, done)
        offload.submit(fail, done)
        await finished.wait()
        offload.close()
        return sorted(answers, key=str), failure

    answers, failure = asyncio.run(scenario())
    assert answers == [(42, None), (None, failure)]


def test_offload_ends_quietly_when_the_loop_is_closed_already():
    loop = asyncio.new_event_loop()
    offload = ThreadOffload(loop, name="disk", threads=1)
    loop.close()
    offload.submit(lambda: 1, lambda _result, _error: None)
    offload.close()


def test_a_sync_waits_for_no_thread_that_reads_or_works():
    async def scenario():
        offload = ThreadOffload(asyncio.get_running_loop(), name="disk", threads=1)
        released = threading.Event()
        synced = asyncio.Event()
        for lane in Lane:
            if lane is not Lane.SYNC:
                offload.submit(released.wait, lambda _result, _error: None, lane)
                offload.submit(released.wait, lambda _result, _error: None, lane)
        offload.submit(lambda: None, lambda _result, _error: synced.set(), Lane.SYNC)
        try:
            await asyncio.wait_for(synced.wait(), 10)
            assert offload.is_busy()
        finally:
            released.set()
            offload.close()
        assert not offload.is_busy()

    asyncio.run(scenario())
