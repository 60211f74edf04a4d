"""What an answer to a share fetch is about: records, and errors that are new or over.

Source: ours; Kafka `ShareSession` (the partitions of an incremental answer).
"""

from penstock.broker.broker import Broker
from penstock.broker.turns import Pace
from penstock.kafka.shares.fetching import TOGETHER, SharePart
from penstock.kafka.shares.sessions import ShareSession
from penstock.protocol.error_codes import ErrorCode


async def with_news(
    broker: Broker, session: ShareSession, parts: list[SharePart]
) -> list[SharePart]:
    """Return those that the answer is about."""
    pace, found = Pace(broker.turns), list[SharePart]()
    for begin in range(0, len(parts), TOGETHER):
        await pace.step()
        some = parts[begin : begin + TOGETHER]
        found += [part for part in some if has_news(session, part)]
    return found


def has_news(session: ShareSession, part: SharePart) -> bool:
    """Whether an answer has a partition that was not acknowledged; an error is told to the end."""
    return bool(part.acquired or part.error or told_before(session, part))


def told_before(session: ShareSession, part: SharePart) -> ErrorCode:
    """Return the error of a partition that its member heard last."""
    return session.partitions.get(part.place, ErrorCode.NONE)
