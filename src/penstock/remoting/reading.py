"""Records that were read become messages on the wire.

Batches are read as they are stored. A pull may begin and end in the middle of one: records before
its offset are stepped over, and the next pull reads the batch again from where this one has ended.
Markers of transactions and what was aborted are stepped over, too.

Source: ours, docs/adr/0122.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.record.build import Record
from penstock.record.committed import Aborted, committed_pieces
from penstock.record.read import DecodedRecord, iter_batches, iter_records, run_end
from penstock.remoting.gate import Found
from penstock.remoting.ids import derived_id, locator_of
from penstock.remoting.mapping import to_message
from penstock.remoting.subscription import TagFilter
from penstock.remoting.system_names import TAGS
from penstock.remoting.wire.message import Host, Message, encode_message
from penstock.remoting.wire.properties import write_properties

if TYPE_CHECKING:
    from penstock.broker.fetch.partition_read import PartitionRead

ANSWER_BYTES_MAX: Final = 256 << 10
"""Of messages, beside the last one: a compressed batch may hold a thousand times its size.
RocketMQ has this bound, too (`maxTransferBytesOnMessageInMemory`)."""


class Wanted(NamedTuple):
    """What a pull asks for."""

    topic: str
    found: Found
    offset: int
    messages_max: int
    tags: TagFilter
    host: Host
    topic_id: bytes
    is_retry: bool = False
    """Whether the topic is a retry topic, by the name that clients have for it."""


class Messages(NamedTuple):
    """Messages on the wire, and the offset behind the last record that was looked at."""

    encoded: list[bytes]
    next_offset: int


def read_messages(wanted: Wanted, read: "PartitionRead") -> Messages:
    """Return the messages of what was read. Raises RecordError kinds."""
    buffers = read.buffers
    data = buffers[0] if len(buffers) == 1 else memoryview(b"".join(buffers))
    aborted = [Aborted(one.first_offset, one.producer_id) for one in read.aborted or ()]
    encoded: list[bytes] = []
    left = ANSWER_BYTES_MAX
    for piece in committed_pieces(data, aborted):
        for header, batch in iter_batches(piece):
            if header.is_control or header.last_offset < wanted.offset:
                continue
            for record in iter_records(batch):
                if record.offset < wanted.offset:
                    continue
                if len(encoded) == wanted.messages_max or left <= 0:
                    return Messages(encoded, record.offset)
                message = _message(wanted, record)
                if message is not None:
                    encoded.append(encode_message(message))
                    left -= len(encoded[-1])
    return Messages(encoded, max(run_end(data, wanted.offset), wanted.offset))


def _message(wanted: Wanted, record: DecodedRecord) -> Message | None:
    """Return a record as a message; None if its tag is not wanted."""
    partition, offset = wanted.found.hosted.partition, record.offset
    plain = Record(record.key, record.value, record.headers, record.timestamp_ms)
    mapped = to_message(plain, derived_id(wanted.topic_id, partition, offset))
    if not wanted.tags.wants(mapped.properties.get(TAGS)):
        return None
    return Message(
        topic=wanted.topic,
        queue_id=wanted.found.queue.queue_id,
        queue_offset=offset,
        body=mapped.body,
        properties=write_properties(mapped.properties),
        locator=locator_of(partition, offset, is_retry=wanted.is_retry),
        flag=mapped.flag,
        born_ms=mapped.born_ms,
        born_host=mapped.born_host,
        store_ms=record.timestamp_ms,
        store_host=wanted.host,
        reconsume_times=mapped.reconsume_times,
    )
