"""The store over HDFS at its bounds, and amid steps of which another comes between or fails."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runtime.io import hdfs_store
from penstock.runtime.io.hdfs_errors import as_port_has_it
from penstock.runtime.io.hdfs_store import HdfsSettings, HdfsStore, open_hdfs
from penstock.tier.errors import CredentialsRefused, StoreCanNot, StoreUnavailable
from penstock.tier.hdfs_place import HdfsPlace
from tests.tier.modelled_hdfs import ModelledHdfs
from tests.tier.store_contract import listed, run

DIRECTORY = "/tests/store"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> ModelledHdfs:
    modelled = ModelledHdfs()
    monkeypatch.setattr(hdfs_store, "_client", lambda *_: modelled)
    return modelled


@pytest.fixture
def store(names: ModelledHdfs) -> HdfsStore:
    return open_hdfs(HdfsSettings(place=names.place(DIRECTORY)))


@pytest.mark.parametrize(
    ("size", "block_bytes"), [(0, 10), (1, 10), (10, 10), (11, 20), (20, 20), (21, 30)]
)
def test_a_small_put_has_one_block(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch, size: int, block_bytes: int
) -> None:
    asked: list[int] = []

    def options(wanted: int) -> Any:
        asked.append(wanted)
        return SimpleNamespace(create_parent=False, block_size=wanted)

    monkeypatch.setattr(hdfs_store, "BLOCK_UNIT", 10)
    monkeypatch.setattr(hdfs_store, "_options", options)
    run(store.put("a/one", [bytes(size)]))
    assert asked == [block_bytes]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_directories_are_known_as_may_be_the_newest_ones(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(hdfs_store, "DIRECTORIES_MAX", 2)
    every = [f"d{number}" for number in range(count)]
    for one in every:
        run(store.put(f"{one}/name", [b"x"]))
    assert list(store._known) == [f"{DIRECTORY}/{one}" for one in every[-2:]]


def test_a_directory_that_could_not_be_made_is_made_by_the_next_put(
    store: HdfsStore, names: ModelledHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise RuntimeError('RPCError("java.io.IOException", "it failed")')

    with monkeypatch.context() as patched:
        patched.setattr(names, "mkdirs", refuse)
        with pytest.raises(StoreUnavailable):
            run(store.put("a/one", [b"x"]))
    run(store.put("a/one", [b"x"]))
    assert run(listed(store, "a")) == {"a/one": 1}


def test_a_put_amid_a_delete_of_this_process_makes_the_directory_again(
    store: HdfsStore, names: ModelledHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = names.delete

    async def amid(path: str, recursive: bool) -> bool:
        done = await delete(path, recursive)
        if path == f"{DIRECTORY}/a":
            await store.put("a/two", [b"xy"])
        return done

    async def work() -> None:
        await store.put("a/one", [b"x"])
        monkeypatch.setattr(names, "delete", amid)
        await store.delete(["a/one"])
        assert await listed(store, "a") == {"a/two": 2}

    run(work())


def test_a_delete_that_fails_has_nothing_under_way(
    store: HdfsStore, names: ModelledHdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = names.delete

    async def fail(path: str, recursive: bool) -> bool:
        if path == f"{DIRECTORY}/a/bad":
            raise RuntimeError('RPCError("java.io.IOException", "it failed")')
        for _ in range(20):
            await asyncio.sleep(0)
        return await delete(path, recursive)

    async def work() -> None:
        for name in ("bad", "slow"):
            await store.put(f"a/{name}", [b"x"])
        monkeypatch.setattr(names, "delete", fail)
        with pytest.raises(StoreUnavailable):
            await store.delete(["a/bad", "a/slow"])
        assert await listed(store, "a") == {"a/bad": 1}

    run(work())


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (2, [2]), (3, [2, 1]), (4, [2, 2]), (5, [2, 2, 1])]
)
def test_a_page_has_as_many_names_as_may_be(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch, count: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(hdfs_store, "PAGE_NAMES", 2)

    async def work() -> list[int]:
        for number in range(count):
            await store.put(f"a/{number}", [b"x"])
        return [len(page) async for page in store.pages("a")]

    assert run(work()) == sizes


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_directories_are_listed_as_deep_as_may_be(
    store: HdfsStore, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    """The directory that is listed is the first one."""
    monkeypatch.setattr(hdfs_store, "DEPTH_MAX", 3)
    name = "/".join(["d"] * depth + ["name"])
    run(store.put(name, [b"x"]))
    if depth <= 3:
        assert run(listed(store, "d")) == {name: 1}
    else:
        with pytest.raises(StoreCanNot, match="deeper than 3"):
            run(listed(store, "d"))


def test_requests_that_are_late_together_turn_to_the_next_name_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent:
        async def get_file_info(self, path: str) -> None:
            await asyncio.Event().wait()

    clients: dict[tuple[str, ...], Silent] = {}
    monkeypatch.setattr(hdfs_store, "_client", lambda nodes, _: clients.setdefault(nodes, Silent()))
    every = ("one:1", "two:1", "three:1")
    store = open_hdfs(HdfsSettings(place=HdfsPlace(every, DIRECTORY), call_ms=20))

    async def work() -> None:
        looks = [store.look(f"a/{number}") for number in range(3)]
        found = await asyncio.gather(*looks, return_exceptions=True)
        assert [type(one) for one in found] == [StoreUnavailable] * 3

    run(work())
    assert store._name_nodes == ("two:1", "three:1", "one:1")
    assert all(one != other for one, other in pairwise(clients))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('RPCError("java.io.IOException", "it failed")', "IOException: it failed"),
        ('RPCError("java.io.IOException", "")', "IOException"),
        ('RPCError("java.io.IOException", "one\\n at java.Two")', "IOException: one"),
        ('InternalError("it failed")', "InternalError: it failed"),
        ("NoSASLMechanism", "NoSASLMechanism"),
        ("UrlParseError(RelativeUrlWithoutBase)", "UrlParseError(RelativeUrlWithoutBase)"),
        ("the machine went away\nat once", "the machine went away"),
        ("", ""),
        ("(none)", "(none)"),
    ],
)
def test_the_reason_says_what_the_library_did(text: str, reason: str) -> None:
    assert as_port_has_it("name", RuntimeError(text)).reason == reason


def test_credentials_that_the_library_refuses_are_known_whatever_it_says_of_them() -> None:
    error = as_port_has_it("name", RuntimeError('GSSAPIError(GssMajor(3), 7, "expired")'))
    assert isinstance(error, CredentialsRefused)
    assert "expired" in str(error)
