"""Popped messages as clients of the remoting protocol get them.

Source: RocketMQ 5.3.3 `MessageDecoder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.remoting.ids import locator_of
from penstock.remoting.pop.records import Source
from penstock.remoting.wire.message import Host, Message, encode_message
from penstock.remoting.wire.properties import write_consumed

if TYPE_CHECKING:
    from penstock.remoting.pop.popping import Part
    from penstock.remoting.pop.records import Seen


def encoded(seen: Seen, deliveries: int, part: Part, host: Host) -> bytes:
    """Return a message as clients get it; its earlier deliveries count as attempts."""
    mapped, record = seen.message(Source(part.key.topic_id, part.key.partition)), seen.record
    return encode_message(
        Message(
            topic=part.hosted.topic.name,
            queue_id=part.queue_id,
            queue_offset=record.offset,
            body=mapped.body,
            properties=write_consumed(mapped.properties),
            locator=locator_of(part.hosted.partition, record.offset),
            flag=mapped.flag,
            born_ms=mapped.born_ms,
            born_host=mapped.born_host,
            store_ms=record.timestamp_ms,
            store_host=host,
            reconsume_times=mapped.reconsume_times + deliveries - 1,
        )
    )
