"""SEARCH_OFFSET_BY_TIMESTAMP: the offset of a queue by time.

    LOWER    the first message of that time or a later one; the end if there is none
    UPPER    the last message of that time or an earlier one; the first if there is none

Times are those of records. A search waits for its turn and is done off the loop.

Source: RocketMQ `AdminBrokerProcessor.searchOffsetByTimestamp`,
`ConsumeQueue.getOffsetInQueueByTime`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.broker.access import Operation
from penstock.broker.fetch.committed import stable_end, stable_position
from penstock.broker.fetch.record_search import Found
from penstock.broker.fetch.watermarks import End, find_high_watermark, knows_the_end
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import told_first_offset
from penstock.broker.tier.search import TierSearch, queue_of
from penstock.remoting.fields import number, text
from penstock.remoting.gate import find_topic, led_queue
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command
from penstock.replication.errors import NotMaster

CODES: Final = (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,)
_UPPER: Final = "upper"
Over = Callable[[], None]
"""Called once, when a search has had its turn."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer when the search has had its turn. Raises what is told to the client."""
    topic = find_topic(context, text(command, "topic"), Operation.DESCRIBE)
    found = led_queue(context, topic, command.fields.get("bname"), number(command, "queueId"))
    is_upper = command.fields.get("boundaryType", "").lower() == _UPPER
    timestamp = max(number(command, "timestamp"), 0) + is_upper
    search = _Search(context, found.hosted, timestamp, reply, int(is_upper))
    queue_of(context.broker, found.hosted).ask(context.connection, search.begin, reply.end)


class _Search(NamedTuple):
    """A search that waits for its turn."""

    context: RemotingContext
    hosted: HostedPartition
    timestamp: int
    reply: Reply
    back: int
    """How many messages before the one that is found is the one that is wanted."""

    def begin(self, over: Over) -> None:
        """Search what is readable now; much may have happened since the request came."""
        hosted, member = self.hosted, self.hosted.member
        try:
            hosted.check_still_led()
            member.check_readable()
            if not knows_the_end(hosted):
                raise NotMaster("the end of the queue is not known yet")
        except PlatformError as error:
            self.reply.fail(error)
            over()
            return
        tier, client = self.context.broker.tier, self.context.connection
        search = TierSearch(hosted, self.timestamp, client, tier)
        search.first_up_to(stable_position(hosted), partial(self._found, over))

    def _found(self, over: Over, found: Found | None, error: PlatformError | None) -> None:
        if error is not None:
            self._end(over, None, error)
        elif found is not None:
            self._end(over, Offset(found.offset), None)
        else:
            find_high_watermark(self.hosted, partial(self._at_end, over))

    def _at_end(self, over: Over, end: Offset | None, error: PlatformError | None) -> None:
        if end is not None:
            confirmed = End(end, self.hosted.member.confirm_position)
            end = Offset(stable_end(self.hosted, confirmed).offset)
        self._end(over, end, error)

    def _end(self, over: Over, offset: Offset | None, error: PlatformError | None) -> None:
        if error is not None:
            self.reply.fail(error)
        else:
            assert offset is not None, "a search without an error has an offset"
            start = told_first_offset(self.hosted, self.context.broker.tier)
            self.reply({"offset": str(max(offset - self.back, start))})
        over()
