"""What every store of objects has to do, whatever is behind it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import pytest

from penstock.base.ports import Buffer
from penstock.tier.errors import LyingObject, ObjectNotFound, PreconditionFailed, StoreCanNot
from penstock.tier.port import PAGE_NAMES, ObjectStore, Plain, Version
from penstock.tier.probe import probe

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine gives."""
    return asyncio.run(work)


async def listed(store: ObjectStore, prefix: str) -> dict[str, int]:
    """Return name and size of what is below a prefix."""
    found: dict[str, int] = {}
    async for page in store.pages(prefix):
        assert not found.keys() & {stat.name for stat in page}
        found.update({stat.name: stat.size_bytes for stat in page})
    return found


class StoreContract:
    """Inherited by the tests of each store; `store` is a fixture that gives an empty one."""

    swaps = True
    """Whether the store compares versions."""

    def test_an_object_is_read_as_it_was_put(self, store: ObjectStore) -> None:
        async def work() -> None:
            await store.put("a/b/one", [b"head", memoryview(b"-"), bytearray(b"tail")])
            assert bytes(await store.read("a/b/one", 0, 9)) == b"head-tail"
            stat = await store.look("a/b/one")
            assert (stat.name, stat.size_bytes) == ("a/b/one", 9)
            assert stat.version.tag

        run(work())

    def test_ranges_come_in_the_order_they_were_asked_for(self, store: ObjectStore) -> None:
        async def work() -> None:
            await store.put("a/one", [bytes(range(100))])
            found = await store.read_many("a/one", [(90, 10), (0, 1), (5, 0), (40, 20)])
            expected = [bytes(range(90, 100)), b"\0", b"", bytes(range(40, 60))]
            assert [bytes(one) for one in found] == expected
            assert await store.read_many("a/one", []) == []

        run(work())

    @pytest.mark.parametrize("place", [(0, 5), (3, 2), (4, 1), (9, 4)])
    def test_a_range_beyond_the_end_is_refused_and_not_cut(
        self, store: ObjectStore, place: tuple[int, int]
    ) -> None:
        async def work() -> None:
            await store.put("a/one", [b"four"])
            with pytest.raises(LyingObject, match="a/one"):
                await store.read("a/one", *place)

        run(work())

    def test_what_is_not_there_is_said_to_be_not_there(self, store: ObjectStore) -> None:
        async def work() -> None:
            for asking in (store.read("a/none", 0, 1), store.look("a/none")):
                with pytest.raises(ObjectNotFound) as caught:
                    await asking
                assert caught.value.name == "a/none"

        run(work())

    def test_a_name_that_is_taken_is_not_put_if_absent(self, store: ObjectStore) -> None:
        async def work() -> None:
            first = await store.put("a/one", [b"first"], Plain.ABSENT)
            with pytest.raises(PreconditionFailed):
                await store.put("a/one", [b"other"], Plain.ABSENT)
            assert bytes(await store.read("a/one", 0, 5)) == b"first"
            assert (await store.look("a/one")).version == first

        run(work())

    def test_of_many_puts_if_absent_one_is_done(self, store: ObjectStore) -> None:
        async def put(at: int) -> bool:
            try:
                await store.put("a/one", [b"%d" % at], Plain.ABSENT)
            except PreconditionFailed:
                return False
            return True

        async def work() -> None:
            done = await asyncio.gather(*(put(at) for at in range(8)))
            assert done.count(True) == 1
            assert bytes(await store.read("a/one", 0, 1)) == b"%d" % done.index(True)

        run(work())

    def test_a_put_by_version_is_refused_once_the_object_is_another(
        self, store: ObjectStore
    ) -> None:
        async def work() -> None:
            first = await store.put("a/one", [b"first"])
            if not self.swaps:
                with pytest.raises(StoreCanNot):
                    await store.put("a/one", [b"second"], first)
                return
            await store.put("a/one", [b"second"], first)
            for version in (first, Version("another")):
                with pytest.raises(PreconditionFailed):
                    await store.put("a/one", [b"third"], version)
            assert bytes(await store.read("a/one", 0, 6)) == b"second"

        run(work())

    def test_a_put_without_condition_replaces(self, store: ObjectStore) -> None:
        async def work() -> None:
            before = await store.put("a/one", [b"first"])
            assert await store.put("a/one", [b"longer than that"]) != before
            assert (await store.look("a/one")).size_bytes == 16

        run(work())

    def test_a_large_object_comes_in_pieces_of_any_size(self, store: ObjectStore) -> None:
        sizes = [1, 9 << 20, 0, 3, 6 << 20]
        whole = b"".join(bytes([at]) * size for at, size in enumerate(sizes))

        async def parts() -> AsyncIterator[Buffer]:
            for at, size in enumerate(sizes):
                yield bytes([at]) * size

        async def work() -> None:
            await store.put_large("a/large", parts())
            assert (await store.look("a/large")).size_bytes == len(whole)
            for at in (0, (8 << 20) - 2, len(whole) - 4):
                assert bytes(await store.read("a/large", at, 4)) == whole[at : at + 4]

        run(work())

    def test_a_large_object_that_is_broken_off_is_not_there(self, store: ObjectStore) -> None:
        async def parts() -> AsyncIterator[Buffer]:
            yield bytes(9 << 20)
            raise KeyError("the source")

        async def work() -> None:
            with pytest.raises(KeyError):
                await store.put_large("a/large", parts())
            assert await listed(store, "a") == {}

        run(work())

    def test_a_list_has_what_is_below_the_prefix(self, store: ObjectStore) -> None:
        async def work() -> None:
            assert await listed(store, "a") == {}
            for name in ("a/1", "a/b/2", "ab/3", "c/4"):
                await store.put(name, [name.encode()])
            assert await listed(store, "a") == {"a/1": 3, "a/b/2": 5}
            assert set(await listed(store, "")) == {"a/1", "a/b/2", "ab/3", "c/4"}

        run(work())

    def test_a_long_list_comes_in_pages(self, store: ObjectStore) -> None:
        names = [f"a/{at:05}" for at in range(PAGE_NAMES + 5)]

        async def work() -> None:
            for at in range(0, len(names), 50):
                await asyncio.gather(*(store.put(one, [b"x"]) for one in names[at : at + 50]))
            assert sorted(await listed(store, "a")) == names

        run(work())

    def test_deleting_takes_what_is_there(self, store: ObjectStore) -> None:
        async def work() -> None:
            for name in ("a/1", "a/2", "a/3"):
                await store.put(name, [b"x"])
            await store.delete(["a/none", "a/1", "b/none/either", "a/3"])
            assert await listed(store, "a") == {"a/2": 1}
            await store.delete([])
            await store.put("a/1", [b"again"], Plain.ABSENT)

        run(work())

    def test_the_probe_finds_what_the_store_does(self, store: ObjectStore) -> None:
        async def work() -> None:
            assert await probe(store, "a/probe") == (True, self.swaps)
            assert await listed(store, "a") == {}

        run(work())
