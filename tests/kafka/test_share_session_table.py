"""Share sessions without a node: whose they are, what they count for, and what replaces them."""

from penstock.base.ids import SessionEpoch
from penstock.kafka.session_epochs import FINAL_EPOCH, FIRST_EPOCH
from penstock.kafka.shares.sessions import ShareSession, ShareSessions
from penstock.protocol.error_codes import ErrorCode

PLACES = [(bytes(16), number) for number in range(3)]


class HandClient:
    def __init__(self) -> None:
        self.is_closed = False


def table() -> tuple[ShareSessions, list[ShareSession]]:
    ended: list[ShareSession] = []
    return ShareSessions(lambda: 10, ended.append), ended


def opened(sessions: ShareSessions) -> ShareSession:
    session = sessions.open("g", "m", HandClient(), PLACES[:1])
    assert isinstance(session, ShareSession)
    return session


def test_a_session_that_was_replaced_gets_no_partitions_any_more() -> None:
    """Nobody would take them from the sum again, which bounds the sessions of all members."""
    sessions, ended = table()
    first = opened(sessions)
    second = opened(sessions)
    assert sessions.change(first, PLACES, ()) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.partitions == 1
    sessions.end("g", "m")
    assert (sessions.partitions, len(sessions), ended) == (0, 0, [])
    assert second.is_over


def test_a_request_that_closes_a_session_leaves_its_successor_open() -> None:
    sessions, _ = table()
    first = opened(sessions)
    assert sessions.use("g", "m", FINAL_EPOCH, HandClient()) is first
    second = opened(sessions)
    assert not sessions.close(first)
    assert sessions.use("g", "m", FIRST_EPOCH, HandClient()) is second
    assert sessions.close(second)
    assert len(sessions) == sessions.partitions == 0


def test_a_session_belongs_to_the_connection_that_used_it_last() -> None:
    sessions, ended = table()
    first, second = HandClient(), HandClient()
    session = sessions.open("g", "m", first, PLACES)
    assert sessions.use("g", "m", FIRST_EPOCH, second) is session
    first.is_closed = True
    sessions.expire(0)
    assert (len(sessions), ended) == (1, [])
    second.is_closed = True
    sessions.expire(0)
    assert (len(sessions), ended) == (0, [session])


def test_a_request_that_is_refused_leaves_the_session_to_its_connection() -> None:
    sessions, ended = table()
    first, second = HandClient(), HandClient()
    assert isinstance(sessions.open("g", "m", first, PLACES), ShareSession)
    for epoch in (0, 2, 7):
        refusal = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert sessions.use("g", "m", SessionEpoch(epoch), second) is refusal
    second.is_closed = True
    sessions.expire(0)
    assert (len(sessions), ended) == (1, [])
    assert isinstance(sessions.use("g", "m", FIRST_EPOCH, first), ShareSession)


def test_partitions_that_are_added_and_forgotten_are_counted() -> None:
    sessions, _ = table()
    session = opened(sessions)
    assert sessions.change(session, PLACES, PLACES[:2]) is session
    assert (sessions.partitions, [*session.partitions]) == (1, PLACES[2:])
    sessions.end("g", "m")
    assert sessions.partitions == 0
