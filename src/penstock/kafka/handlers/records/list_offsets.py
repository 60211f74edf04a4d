"""ListOffsets (key 2), versions 1 to 11: an offset of a partition by position or by timestamp.

    -1 latest                 the high watermark
    -2 earliest               the log start: the tier's, where only the tier has the oldest records
    -4 earliest local (v8)    the first offset on the disk
    -3 (v7)                   the record with the largest timestamp
    -5 (v9)                   the last offset that the tier has; none where nothing is copied
    -6 (v11)                  the first one that it has not, where the topic is copied
    0 and more                the first record with that timestamp or a later one

Look-ups by timestamp use the index off the loop and are answered when they are done. Only here is a
batch decompressed, off the loop too, to find the record in it. They wait for their turn
(broker/look_ups.py): who leads the partition, and what is readable, is asked when that has come.
No offset is below the log start. What only the tier has is searched there (broker/tier/search.py);
while nobody knows yet what that is, the answer is an error after which clients ask again.

A consumer of committed records (v2) gets the last stable offset as the latest one, and no record at
or behind it (broker/fetch/committed.py).

Only the master answers. A new master does not know the high watermark before its confirm position
has reached the start of its mastership: until then the latest offset, and a timestamp that no
readable record has, are OFFSET_NOT_AVAILABLE (before version 5 LEADER_NOT_AVAILABLE), so that no
client sees the end of a partition go back.

Source: Kafka `UnifiedLog.fetchOffsetByTimestamp`, `KafkaApis.handleListOffsetRequest`; KIP-79,
KIP-207 (new masters), KIP-320 (leader epoch, v4), KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5),
KIP-1023 (-6).
"""

from functools import partial
from typing import Any, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, Position
from penstock.broker.access import Operation
from penstock.broker.fetch.committed import stable_end, stable_position
from penstock.broker.fetch.record_search import MAX_TIMESTAMP, Found, RecordSearch
from penstock.broker.fetch.watermarks import End, find_high_watermark, knows_the_end
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import first_offset, known_first_offset
from penstock.broker.tier.search import TierSearch, queue_of
from penstock.broker.tier.view import TierView
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.fetch.parts import READ_COMMITTED
from penstock.kafka.gate import led_partition
from penstock.kafka.look_ups import RequestLookUps
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.read.needs_disk import Over

KEY = ApiKey.LIST_OFFSETS
VERSIONS = range(1, 12)
SLICED_BY = (("topics", "partitions"),)

LATEST, EARLIEST = -1, -2
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}

NOT_AVAILABLE_VERSION = 5

NOTHING = Found(-1)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer partition by partition."""
    topics: list[dict[str, object]] = []
    look_ups = RequestLookUps(context.broker.look_ups, request, lambda: reply({"topics": topics}))
    for topic in request.body.topics:
        answers: list[dict[str, object]] = []
        topics.append({"name": topic.name, "partitions": answers})
        for wanted in topic.partitions:
            place = (topic.name, wanted.partition_index)
            answer: dict[str, object] = {"partition_index": wanted.partition_index}
            answers.append(answer)
            if request.api_version < _since_version(wanted.timestamp):
                answer["error_code"] = ErrorCode.UNSUPPORTED_VERSION
                continue
            if not request.is_first(
                place
            ):  # as in Kafka: no client names one twice, and each may cost a search
                answer["error_code"] = ErrorCode.INVALID_REQUEST
                continue
            try:
                _look_up(context, topic.name, wanted, Looked(request, answer, look_ups))
            except PlatformError as error:
                answer["error_code"] = error_code_of(error)
    look_ups.start()


def _since_version(timestamp: int) -> int:
    """Return the first version with this special timestamp; there are none below -6."""
    return 1 if timestamp >= 0 else _SINCE_VERSION.get(timestamp, VERSIONS.stop)


class Looked(NamedTuple):
    """Where the result for a partition goes."""

    request: Request
    answer: dict[str, object]
    look_ups: RequestLookUps

    def readable(self, hosted: HostedPartition, confirmed: End) -> End:
        """Return the end of what this client may read of what was confirmed."""
        return stable_end(hosted, confirmed) if self.is_committed else confirmed

    def limit_position(self, hosted: HostedPartition) -> Position:
        """Return the position (exclusive) up to which this client may read."""
        return stable_position(hosted) if self.is_committed else hosted.member.confirm_position

    @property
    def is_committed(self) -> bool:
        """Whether the client reads committed records only."""
        return getattr(self.request.body, "isolation_level", 0) == READ_COMMITTED

    @property
    def not_available(self) -> ErrorCode:
        """The error of a master that does not know the end yet."""
        is_known = self.request.api_version >= NOT_AVAILABLE_VERSION
        return ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE


def _look_up(context: RequestContext, topic: str, wanted: Any, looked: Looked) -> None:
    timestamp = wanted.timestamp
    leader_epoch: LeaderEpoch = getattr(wanted, "current_leader_epoch", NO_LEADER_EPOCH)
    hosted = led_partition(context, topic, wanted.partition_index, Operation.DESCRIBE, leader_epoch)
    hosted.member.check_readable()
    if timestamp in {LATEST, MAX_TIMESTAMP} and not knows_the_end(hosted):
        looked.answer["error_code"] = looked.not_available
    elif timestamp >= 0 or timestamp == MAX_TIMESTAMP or _is_cold(hosted, timestamp):
        broker = context.broker
        search = Search(hosted, timestamp, leader_epoch, looked, broker.tier)
        queue = broker.look_ups if timestamp == LATEST else queue_of(broker, hosted)
        looked.look_ups.add(search.begin, search.drop, queue)
    else:
        found = _at_an_end(hosted, timestamp, looked, context.broker.tier)
        looked.answer.update(found._asdict())


def _is_cold(hosted: HostedPartition, timestamp: int) -> bool:
    """Whether the latest offset is asked for, and the disk has to tell."""
    return timestamp == LATEST and hosted.member.high_watermark(hosted.log) is None


def _at_an_end(
    hosted: HostedPartition, timestamp: int, looked: Looked, tier: TierView | None
) -> Found:
    if timestamp == LATEST:
        end = hosted.member.high_watermark(hosted.log)
        assert end is not None
        latest = looked.readable(hosted, End(end, hosted.member.confirm_position)).offset
        return Found(latest, leader_epoch=hosted.member.leader_epoch)
    if timestamp == EARLIEST:
        return Found(known_first_offset(hosted, tier))
    if timestamp == EARLIEST_LOCAL:
        return Found(hosted.log.log_start_offset)
    return _in_tier(hosted, timestamp, tier)


def _in_tier(hosted: HostedPartition, timestamp: int, tier: TierView | None) -> Found:
    """Return a bound of what was copied, with the epoch of its record where the tier has that."""
    log = hosted.log
    manifest = None if tier is None else tier.manifest(hosted.member, log.topic_partition)
    if manifest is None:
        return NOTHING
    if timestamp == EARLIEST_PENDING:
        return Found(max(manifest.end_offset, log.log_start_offset))
    start = first_offset(hosted, tier)
    if not manifest.runs or start is None or manifest.end_offset <= start:
        return NOTHING
    return Found(manifest.end_offset - 1, leader_epoch=LeaderEpoch(manifest.runs[-1].epochs[-1][0]))


class Search(NamedTuple):
    """A look-up by timestamp, or of the latest offset, which waits for its turn."""

    hosted: HostedPartition
    timestamp: int
    leader_epoch: LeaderEpoch
    """The one that the client knows."""
    looked: Looked
    tier: TierView | None

    def begin(self, over: Over) -> None:
        """Search what is readable now; much may have happened since the request came."""
        hosted = self.hosted
        try:
            hosted.check_still_led(self.leader_epoch)
            hosted.member.check_readable()
        except PlatformError as error:
            self.looked.answer["error_code"] = error_code_of(error)
            over()
            return
        member, log = hosted.member, hosted.log
        limit = self.looked.limit_position(hosted)
        is_whole = knows_the_end(hosted)

        def done(found: Found | None, error: PlatformError | None) -> None:
            self._end(found, error, is_whole=is_whole)
            over()

        client = self.looked.request.connection
        examine = RecordSearch(hosted, self.timestamp, client.has_gone, log.log_start_offset)
        tiers = TierSearch(hosted, self.timestamp, client, self.tier)
        if self.timestamp == LATEST:
            epoch, confirmed = member.leader_epoch, member.confirm_position

            def told(end: Offset | None, error: PlatformError | None) -> None:
                if end is None:
                    done(None, error)
                    return
                readable = self.looked.readable(hosted, End(end, confirmed))
                done(Found(readable.offset, leader_epoch=epoch), None)

            find_high_watermark(hosted, told)
        elif self.timestamp == MAX_TIMESTAMP:
            newest = partial(tiers.newest, done)
            member.log.offset_for_max_timestamp(log, limit, newest, examine=examine)
        else:
            tiers.first_up_to(limit, done)

    def _end(self, found: Found | None, error: PlatformError | None, *, is_whole: bool) -> None:
        """Answer. Retention may have raised the log start since the search began."""
        answer = self.looked.answer
        start = first_offset(self.hosted, self.tier)
        if error is not None:
            answer["error_code"] = error_code_of(error)
        elif found is not None:
            answer.update(found._replace(offset=max(found.offset, start or 0))._asdict())
        elif is_whole:
            answer.update(NOTHING._asdict())
        else:
            answer["error_code"] = self.looked.not_available

    def drop(self) -> None:
        """The client has gone: nobody reads this answer."""
        self.looked.answer["error_code"] = ErrorCode.REQUEST_TIMED_OUT
