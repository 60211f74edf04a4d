"""Reads all of an object and says whether it is what it says it is.

Source: as for a file on a disk, extents/check.py; here its bytes come in windows.
"""

from penstock.extents.check import checking
from penstock.extents.layout import HEADER_BYTES
from penstock.tier.port import ObjectStore
from penstock.tier.read.describe import Described, Window, describe_object, lies_named


async def check_object(store: ObjectStore, name: str) -> Described:
    """Return what an object says of itself, if every byte of it agrees.

    Holds two windows at a time, whatever the object's size. Raises StoreError, LyingObject.
    """
    described = await describe_object(store, name)
    file_bytes = described.envelope.file_bytes
    data = Window(store, name, file_bytes)
    rest = Window(store, name, file_bytes)

    def read(at: int, size: int) -> memoryview:
        found = data.read(at, size)
        return found if len(found) == size else rest.read(at, size)

    await rest.load(described.directory.at, file_bytes - described.directory.at)
    await data.load(0, HEADER_BYTES)
    steps = checking(name, file_bytes, read)
    with lies_named(name):
        next(steps)
        # `checking` takes a summary, then its blocks, with a step for each.
        for entry, summary in zip(described.directory.entries, described.summaries, strict=True):
            await rest.load(entry.summary_at, entry.summary_bytes)
            next(steps)
            blocks = summary.blocks
            for place, size in zip(blocks.places, blocks.stored_bytes, strict=True):
                await data.load(place, size)
                next(steps)
        for _ in steps:
            raise AssertionError("a step that nothing was read for")
    return described
