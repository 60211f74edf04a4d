"""Finds out what a store does with conditions, by trying: what it says of itself is not enough.

Source: docs/adr/0117. A gateway of S3 was seen that accepts a second create of the same name.
"""

from penstock.tier.errors import PreconditionFailed, StoreCanNot
from penstock.tier.port import Capabilities, Condition, ObjectStore, Plain


async def probe(store: ObjectStore, name: str) -> Capabilities:
    """Try a store with the object `name`, which nobody else uses; it is gone afterwards.

    Raises StoreError: the store can not be used at all.
    """
    await store.delete([name])
    first = await store.put(name, [b"first"], Plain.ABSENT)
    creates = await _refuses(store, name, Plain.ABSENT)
    second = await store.put(name, [b"second"])
    swaps = second != first and await _refuses(store, name, first)
    await store.delete([name])
    return Capabilities(creates, swaps)


async def _refuses(store: ObjectStore, name: str, condition: Condition) -> bool:
    try:
        await store.put(name, [b"third"], condition)
    except PreconditionFailed:
        return True
    except StoreCanNot:
        return False
    return False


def warning_of(found: Capabilities) -> str | None:
    """Return what to tell the operator of a store, if there is something to tell."""
    if found.creates:
        return None
    return (
        "the store accepts a second object under a name that is taken: only the ids in names "
        "protect what is in it, so nothing else may write there"
    )
