"""HDFS keeps the contract of stores; nothing half-written has a name, and a delete ends puts.

What is not marked `compat` runs on names in memory as well, without Java.
"""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness import hdfs_server
from harness.hdfs_server import HdfsServer
from penstock.base.ports import Buffer
from penstock.runtime.io import hdfs_store
from penstock.runtime.io.hdfs_store import HdfsSettings, HdfsStore, open_hdfs
from penstock.tier.errors import (
    CredentialsRefused,
    LyingObject,
    ObjectNotFound,
    StoreUnavailable,
)
from penstock.tier.hdfs_place import HdfsPlace
from penstock.tier.port import Plain
from tests.tier.modelled_hdfs import File, ModelledHdfs, Writer
from tests.tier.store_contract import StoreContract, listed, run

CALL_MS = 120_000
MIB = 1 << 20


Server = HdfsServer | ModelledHdfs


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    reason = hdfs_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(params=["modelled", pytest.param("hadoop", marks=pytest.mark.compat)])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Names in memory, and a real NameNode with a DataNode: they do the same."""
    if request.param == "hadoop":
        return cast("HdfsServer", request.getfixturevalue("hadoop"))
    modelled = ModelledHdfs()
    monkeypatch.setattr(hdfs_store, "_client", lambda *_: modelled)
    return modelled


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> str:
    """A directory that no other test has, and that nobody has made yet."""
    return f"/tests/{abs(hash(request.node.nodeid))}/store"


@pytest.fixture
def store(server: Server, directory: str) -> HdfsStore:
    return store_of(server, directory)


def store_of(server: Server, directory: str) -> HdfsStore:
    return open_hdfs(HdfsSettings(place=server.place(directory), call_ms=CALL_MS))


class TestHdfs(StoreContract):
    """NameNode and DataNode of Hadoop; each test has a directory of its own."""

    swaps = False


async def below(store: HdfsStore, path: str) -> set[str]:
    """Return what is in a directory, past the store."""
    client = store._opened()
    try:
        return {one.path.rpartition("/")[2] async for one in client.list_status(path)}
    except FileNotFoundError:
        return set()


class Slow:
    """Parts of a large object: the second one comes when it is let."""

    def __init__(self, first: bytes = bytes(MIB)) -> None:
        self._first = first
        self.has_begun = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def parts(self) -> AsyncIterator[Buffer]:
        yield self._first
        self.has_begun.set()
        await self.goes_on.wait()
        yield b"end"


def test_what_is_being_put_has_no_name_and_is_in_no_list(store: HdfsStore, directory: str) -> None:
    async def work() -> None:
        slow = Slow()
        put = asyncio.create_task(store.put_large("a/one", slow.parts()))
        await slow.has_begun.wait()
        assert await listed(store, "a") == {}
        with pytest.raises(ObjectNotFound):
            await store.look("a/one")
        assert await below(store, f"{directory}/a") == {"one.putting"}
        slow.goes_on.set()
        await put
        assert await listed(store, "a") == {"a/one": MIB + 3}
        assert await below(store, f"{directory}/a") == {"one"}

    run(work())


def test_who_deletes_a_name_ends_the_put_of_it_that_is_under_way(
    server: Server, store: HdfsStore, directory: str
) -> None:
    other = store_of(server, directory)

    async def work() -> None:
        slow = Slow()
        await store.put("a/lives", [b"x"])
        put = asyncio.create_task(store.put_large("a/one", slow.parts()))
        await slow.has_begun.wait()
        await other.delete(["a/one"])
        slow.goes_on.set()
        with pytest.raises(StoreUnavailable, match="deleted"):
            await put
        assert await listed(other, "a") == {"a/lives": 1}
        assert await below(store, f"{directory}/a") == {"lives"}

    run(work())


def test_a_put_that_gets_its_name_amid_a_delete_is_deleted_or_fails(
    server: Server, store: HdfsStore, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the put does between two requests of the delete, it leaves nothing."""
    slow = Slow()

    async def work() -> None:
        put = asyncio.create_task(store.put_large("a/one", slow.parts()))
        await slow.has_begun.wait()
        other = store_of(server, directory)
        take = other._take

        async def take_and_let_the_put_go_on(*words: str, recursive: bool) -> None:
            await take(*words, recursive=recursive)
            slow.goes_on.set()
            await asyncio.wait([put])

        monkeypatch.setattr(other, "_take", take_and_let_the_put_go_on)
        await other.delete(["a/one"])
        with pytest.raises(StoreUnavailable):
            await put
        assert await listed(other, "a") == {}

    run(work())


def test_a_directory_that_somebody_else_has_deleted_is_not_made_again_by_the_next_put(
    server: Server, store: HdfsStore, directory: str
) -> None:
    """A master that was deposed goes on: its directory is gone with the last of its objects."""
    new = store_of(server, directory)

    async def work() -> None:
        await store.put("set/epoch/one", [b"x"])
        await new.delete(["set/epoch/one"])
        assert await below(new, f"{directory}/set") == set()
        with pytest.raises(StoreUnavailable, match="somebody else"):
            await store.put("set/epoch/two", [b"x"])
        assert await listed(new, "set") == {}
        await store.put("set/epoch/three", [b"x"])  # it may be the owner after all
        assert await listed(new, "set") == {"set/epoch/three": 1}

    run(work())


def test_a_directory_that_this_process_has_emptied_is_made_again(
    store: HdfsStore, directory: str
) -> None:
    async def work() -> None:
        await store.put("a/one", [b"x"])
        await store.delete(["a/one"])
        assert await below(store, directory) == set()
        await store.put("a/two", [b"x"])
        await store.delete(["a/none"])
        assert await listed(store, "a") == {"a/two": 1}

    run(work())


def test_deleting_takes_what_a_dying_put_has_left(
    server: Server, store: HdfsStore, directory: str
) -> None:
    async def work() -> None:
        slow = Slow()
        put = asyncio.create_task(store.put_large("a/one", slow.parts()))
        await slow.has_begun.wait()
        put.cancel()
        await asyncio.wait([put])
        other = store_of(server, directory)
        assert await below(other, f"{directory}/a") == {"one.putting"}
        await other.delete(["a/one"])
        assert await below(other, directory) == set()

    run(work())


def test_a_put_that_fails_leaves_nothing(store: HdfsStore, directory: str) -> None:
    async def parts() -> AsyncIterator[Buffer]:
        yield b"x"
        raise KeyError("the source")

    async def work() -> None:
        with pytest.raises(KeyError):
            await store.put_large("a/one", parts())
        assert await below(store, f"{directory}/a") == set()

    run(work())


@pytest.mark.compat
def test_every_block_is_synced_before_the_next_one_begins(
    hadoop: HdfsServer, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hdfs_native

    store = store_of(hadoop, directory)
    monkeypatch.setattr(hdfs_store, "BLOCK_BYTES", MIB)
    synced: list[int] = []
    written = 0
    write, hsync = hdfs_native.AsyncFileWriter.write, hdfs_native.AsyncFileWriter.hsync

    async def noted_write(writer: hdfs_native.AsyncFileWriter, data: bytes) -> int:
        nonlocal written
        written += len(data)
        return await write(writer, data)

    async def noted_sync(writer: hdfs_native.AsyncFileWriter) -> None:
        await hsync(writer)
        synced.append(written)

    monkeypatch.setattr(hdfs_native.AsyncFileWriter, "write", noted_write)
    monkeypatch.setattr(hdfs_native.AsyncFileWriter, "hsync", noted_sync)
    data = os.urandom(2 * MIB + 700_000)

    async def parts() -> AsyncIterator[Buffer]:
        for at in range(0, len(data), 300_001):
            yield data[at : at + 300_001]

    async def work() -> None:
        await store.put_large("a/one", parts())
        assert bytes(await store.read("a/one", 0, len(data))) == data

    run(work())
    assert synced == [MIB, 2 * MIB, len(data)]


def test_a_file_that_is_shorter_than_what_was_written_gets_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modelled = ModelledHdfs()
    monkeypatch.setattr(hdfs_store, "_client", lambda *_: modelled)

    async def lose(*_: object) -> int:
        return 1

    monkeypatch.setattr(Writer, "write", lose)

    async def work() -> None:
        with pytest.raises(StoreUnavailable, match="0 of 3 bytes"):
            await store_of(modelled, "/x").put("a/one", [b"one"])

    run(work())
    assert not any(path.startswith("/x/a/one") for path in modelled.files)


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 3 * MIB])
def test_all_bytes_of_a_put_are_on_disks_when_it_is_answered(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    modelled = ModelledHdfs()
    monkeypatch.setattr(hdfs_store, "_client", lambda *_: modelled)
    monkeypatch.setattr(hdfs_store, "BLOCK_BYTES", MIB)

    async def parts() -> AsyncIterator[Buffer]:
        for at in range(0, size, 300_001):
            yield bytes(min(300_001, size - at))

    async def work() -> File:
        await store_of(modelled, "/x").put_large("a/one", parts())
        return await modelled.get_file_info("/x/a/one")

    found = run(work())
    assert (found.synced_bytes, found.length) == (size, size)


@pytest.mark.parametrize("size", [0, 1, 256 << 10, MIB])
def test_objects_of_sizes_at_bounds_are_read_as_they_were_put(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(hdfs_store, "BLOCK_UNIT", MIB)
    data = os.urandom(size)

    async def work() -> None:
        await store.put("a/one", [data], Plain.ABSENT)
        assert (await store.look("a/one")).size_bytes == size
        assert bytes(await store.read("a/one", 0, size)) == data
        with pytest.raises(LyingObject):
            await store.read("a/one", 0, size + 1)

    run(work())


def test_a_large_put_leaves_the_loop_to_others(store: HdfsStore) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> None:
        counting = asyncio.create_task(count())
        await store.put("a/one", [bytes(16 * MIB)])
        counting.cancel()

    run(work())
    assert turns >= 16 * MIB // hdfs_store.PIECE_BYTES


def test_a_list_goes_on_behind_a_directory_that_goes_meanwhile(
    store: HdfsStore, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        for name in ("a/1/x", "a/2/x", "a/3/x"):
            await store.put(name, [b"x"])
        files = store._files("a")
        found = [(await anext(files)).path]
        listing = store._next

        async def next_of(prefix: str, begun: AsyncIterator[Any]) -> object:
            if len(found) == 1:  # "a" was listed, and "a/2" not yet
                await store.delete(["a/2/x"])
            return await listing(prefix, begun)

        monkeypatch.setattr(store, "_next", next_of)
        found += [one.path async for one in files]
        assert [path.removeprefix(directory) for path in found] == ["/a/1/x", "/a/3/x"]

    run(work())


def test_a_directory_and_a_file_are_told_apart(store: HdfsStore) -> None:
    async def work() -> None:
        await store.put("a/b/one", [b"x"])
        with pytest.raises(ObjectNotFound):
            await store.look("a/b")
        assert await listed(store, "a/b/one") == {}

    run(work())


@pytest.mark.compat
def test_the_group_may_read_and_others_may_not(hadoop: HdfsServer, directory: str) -> None:
    store = store_of(hadoop, directory)

    async def work() -> None:
        await store.put("a/one", [b"x"])
        status = await store._status("", f"{directory}/a/one")
        assert (oct(status.permission), status.owner) == ("0o640", os.environ.get("USER", "root"))
        assert oct((await store._status("", f"{directory}/a")).permission) == "0o750"

    run(work())


@pytest.mark.compat
def test_a_user_without_permission_is_refused_by_name(
    hadoop: HdfsServer, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(hadoop, directory)

    async def work() -> None:
        await store.put("a/one", [b"x"])
        monkeypatch.setenv(hdfs_store.USER_VARIABLE, "")
        settings = HdfsSettings(place=hadoop.place(directory), user="stranger", call_ms=CALL_MS)
        stranger = open_hdfs(settings)
        for asking in (
            stranger.put("a/two", [b"x"]),
            stranger.read("a/one", 0, 1),
            stranger.look("a/one"),
            stranger.delete(["a/one"]),
            listed(stranger, "a"),
        ):
            with pytest.raises(CredentialsRefused, match="stranger"):
                await asking

    run(work())


@pytest.mark.compat
def test_a_damaged_block_is_never_given(hadoop: HdfsServer, directory: str) -> None:
    store = store_of(hadoop, directory)
    before = set(hadoop.blocks())

    async def put() -> None:
        await store.put("a/one", [bytes(1000)])

    run(put())
    (block,) = set(hadoop.blocks()) - before
    block.write_bytes(bytes(999) + b"\1")

    async def read() -> None:
        with pytest.raises(StoreUnavailable, match=r"All DataNodes failed$"):
            await store.read("a/one", 0, 1000)

    run(read())


@pytest.mark.compat
def test_of_several_name_nodes_one_that_serves_is_found(hadoop: HdfsServer, directory: str) -> None:
    """The first does not listen, the second listens and never answers."""

    silent = socket.create_server(("127.0.0.1", 0))
    where = f"127.0.0.1:{silent.getsockname()[1]}"
    place = HdfsPlace(("127.0.0.1:1", where, hadoop.address), directory)

    async def work() -> None:
        store = open_hdfs(HdfsSettings(place=place, call_ms=500))
        for _ in range(2):  # behind the first one it begins with the silent one
            with pytest.raises(StoreUnavailable, match="no answer within 500 ms"):
                await store.look("a/one")
        store._call_ms = CALL_MS
        await store.put("a/one", [b"x"])
        assert (await store.look("a/one")).size_bytes == 1

    with silent:
        run(work())


@pytest.mark.compat
def test_stores_of_one_place_share_the_threads_of_the_library_which_outlive_them(
    hadoop: HdfsServer, directory: str
) -> None:
    """A client that is dropped just behind an answer has stopped the whole process."""

    async def work() -> None:
        store = store_of(hadoop, directory)
        await store.put("a/one", [b"x"])

    run(work())
    gc.collect()
    before = threads()
    for _ in range(20):
        run(work())
        gc.collect()
    assert threads() == before


def threads() -> set[str]:
    found = (one for one in Path("/proc/self/task").iterdir())
    return {one.name for one in found if "tokio" in (one / "comm").read_text()}
