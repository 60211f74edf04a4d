"""What is told of the queues of a topic that a broker leads, queue by queue.

    {"offsetTable": {{"brokerName": "set-1", "queueId": 0, "topic": "t"}: {…}, …}, …}

Keys that are objects are not JSON, but what RocketMQ's clients write and read.

Source: RocketMQ `TopicStatsTable`, `ConsumeStats`, `ResetOffsetBody`, as fastjson writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.base.ids import Offset
from penstock.broker.fetch.watermarks import find_high_watermark, knows_the_end
from penstock.remoting.gate import Found
from penstock.remoting.queues import broker_name
from penstock.remoting.routes import encode_json
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.base.errors import PlatformError
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.broker.turns import Pace
    from penstock.remoting.front import RemotingFront

_NAME_END: Final = b'{"offsetTable":{'


def offset_table(rows: Iterable[tuple[str, Found, object]], **beside: object) -> bytes:
    """Return the body of an answer: a row for each queue of a topic, and what is told beside."""
    lines = b",".join(_key(topic, found) + b":" + encode_json(told) for topic, found, told in rows)
    after = b"".join(
        b"," + encode_json(name) + b":" + encode_json(told) for name, told in beside.items()
    )
    return _NAME_END + lines + b"}" + after + b"}"


def _key(topic: str, found: Found) -> bytes:
    name = broker_name(found.queue.set_id)
    return encode_json({"brokerName": name, "queueId": found.queue.queue_id, "topic": topic})


async def led_queues(front: RemotingFront, topic: HostedTopic, pace: Pace) -> list[Found]:
    """Return the queues of a topic that this broker leads, in order."""
    queues, members = front.queues_of(topic.topic_id, tuple(topic.placed)), front.broker.members
    found = []
    for partition, set_id in enumerate(tuple(topic.placed)):
        await pace.step()
        if set_id in members and members[set_id].is_master:
            hosted = topic.find(partition)
            if hosted is not None:
                found.append(Found(hosted, queues.queue(partition)))
    return found


async def end_of(hosted: HostedPartition) -> Offset:
    """Return the end of a queue: of what is confirmed.

    Raises NotMaster where it is not led here, or a new master does not know it yet.
    """
    hosted.check_still_led()
    hosted.member.check_readable()
    if not knows_the_end(hosted):
        raise NotMaster("the end of the queue is not known yet")
    told: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()

    def done(end: Offset | None, error: PlatformError | None) -> None:
        if told.done():
            return
        if error is not None:
            told.set_exception(error)
        else:
            assert end is not None, "a look-up without an error has an offset"
            told.set_result(end)

    find_high_watermark(hosted, done)
    return await told
