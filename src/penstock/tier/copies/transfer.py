"""Does at the store what copiers and the metadata want: puts an object, deletes what is due.

Source: docs/adr/0117.
"""

from collections.abc import Sequence

from penstock.base.ports import Buffer
from penstock.tier.envelope import ENVELOPE_BYTES, Envelope, encode_envelope
from penstock.tier.errors import ObjectNotFound
from penstock.tier.metadata.commands import Swept
from penstock.tier.metadata.objects import Due
from penstock.tier.names import ObjectName
from penstock.tier.port import Capabilities, ObjectStore, Plain


async def put_object(
    store: ObjectStore, capabilities: Capabilities, name: ObjectName, file: Sequence[Buffer]
) -> int:
    """Put an extent file as an object; return the object's bytes.

    Raises StoreError: what became of it is unknown, also when the name is said to be taken.
    """
    size = sum(len(chunk) for chunk in file)
    envelope = encode_envelope(Envelope(*name, size))
    condition = Plain.ABSENT if capabilities.creates else Plain.ALWAYS
    await store.put(str(name), [envelope, *file], condition)
    return ENVELOPE_BYTES + size


async def size_of(store: ObjectStore, name: ObjectName) -> int | None:
    """Return the bytes of an object; None: it is not there. Raises StoreError: unknown."""
    try:
        return (await store.look(str(name))).size_bytes
    except ObjectNotFound:
        return None


async def sweep(store: ObjectStore, due: Sequence[Due]) -> list[Swept]:
    """Delete what is due; return what the metadata is to be told. Raises StoreError."""
    await store.delete([str(one.name) for one in due])
    return [Swept(one.name.object_id, one.due_ms) for one in due]
