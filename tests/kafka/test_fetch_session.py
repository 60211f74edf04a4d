from itertools import count
from typing import Any

from penstock.base.ids import LeaderEpoch, SessionEpoch
from penstock.kafka.fetch.session import (
    PARTITION_BYTES,
    SESSION_BYTES,
    FetchSession,
    SessionPartition,
)
from penstock.kafka.fetch.session_cache import GONE_MS, FetchSessionCache
from penstock.protocol.error_codes import ErrorCode

A, B = (b"a", 0), (b"b", 0)


class Peer:
    """A connection, as far as sessions know it."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.client_host = host
        self.is_closed = False


PEER, OTHER = Peer(), Peer("10.0.0.2")


def cache(capacity: int = 2, idle_ms_max: int = 100_000) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(capacity, idle_ms_max, lambda: next(ids))


def wanted(key: tuple[bytes, int], offset: int = 0) -> SessionPartition:
    return SessionPartition(key, offset, 1000, LeaderEpoch(-1), LeaderEpoch(-1))


def partitions(number: int) -> list[SessionPartition]:
    return [wanted((b"t", one)) for one in range(number)]


def made(
    sessions: FetchSessionCache, size: int = 0, *, peer: Peer = PEER, now_ms: int = 0
) -> FetchSession | None:
    """A session of so many partitions, if there is room for it."""
    session = sessions.create(
        peer, uses_topic_ids=False, now_ms=now_ms, wanted_bytes=size * PARTITION_BYTES
    )
    if session is None or not sessions.apply(session, partitions(size), ()):
        return None
    return session


def created(sessions: FetchSessionCache, size: int = 0, *, peer: Peer = PEER) -> FetchSession:
    session = made(sessions, size, peer=peer)
    assert session is not None
    return session


def resumed(
    sessions: FetchSessionCache, session_id: int, epoch: int = 1, **how: Any
) -> FetchSession | ErrorCode:
    given = {"uses_topic_ids": False, "now_ms": 0} | how
    return sessions.resume(PEER, session_id, SessionEpoch(epoch), **given)


def lives(sessions: FetchSessionCache, session: FetchSession) -> bool:
    return sessions._sessions.get(session.session_id) is session


def test_a_session_expects_its_epochs_one_after_another() -> None:
    sessions = cache()
    session = created(sessions)
    for epoch in (1, 2, 3):
        assert resumed(sessions, session.session_id, epoch) is session


def test_a_repeated_or_skipped_epoch_is_refused() -> None:
    sessions = cache()
    session = created(sessions)
    for epoch in (0, 2):
        found = resumed(sessions, session.session_id, epoch)
        assert found is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused() -> None:
    assert resumed(cache(), 77) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_made_with_names_can_not_go_on_with_topic_ids() -> None:
    sessions = cache()
    session = created(sessions)
    found = resumed(sessions, session.session_id, uses_topic_ids=True)
    assert found is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert resumed(sessions, session.session_id) is session, "its epoch is the one before"


def test_the_epoch_after_the_largest_one_is_one() -> None:
    session = created(cache())
    session.next_epoch = SessionEpoch(2**31 - 1)
    session.advance()
    assert session.next_epoch == 1


def test_a_session_ends_when_nobody_has_used_it_for_long() -> None:
    sessions = cache(idle_ms_max=100_000)
    first, second = created(sessions), created(sessions, 3)
    resumed(sessions, first.session_id, now_ms=50_000)
    sessions.expire(99_999)
    assert lives(sessions, second)
    sessions.expire(100_000)
    assert lives(sessions, first)
    assert not lives(sessions, second)
    assert sessions.pinned_bytes == first.size_bytes == SESSION_BYTES


def test_a_session_of_a_closed_connection_ends_soon() -> None:
    sessions, peer = cache(idle_ms_max=100_000), Peer()
    left, used = created(sessions, peer=peer), created(sessions, peer=peer)
    peer.is_closed = True
    sessions.expire(GONE_MS - 1)
    resumed(sessions, used.session_id, now_ms=GONE_MS - 1)
    sessions.expire(GONE_MS)
    assert not lives(sessions, left)
    sessions.expire(99_999)
    assert lives(sessions, used)  # by another connection


def test_without_places_there_are_no_sessions() -> None:
    assert made(cache(capacity=0)) is None


def test_what_a_session_takes_is_counted_until_it_ends() -> None:
    sessions = cache()
    session = created(sessions, 3)
    assert sessions.pinned_bytes == SESSION_BYTES + 3 * (PARTITION_BYTES + 1)
    sessions.apply(session, [wanted((b"t" * 500, 9))], [(b"t", 0), (b"t", 77)])
    assert sessions.pinned_bytes == SESSION_BYTES + 3 * PARTITION_BYTES + 502
    assert sessions.partitions == 3
    sessions.close(session.session_id)
    assert (sessions.pinned_bytes, sessions.partitions) == (0, 0)
    assert not sessions._by_host


def test_all_sessions_together_take_a_bounded_part_of_memory() -> None:
    sessions = cache(capacity=99)
    sessions.bytes_max = 100 * PARTITION_BYTES
    first = created(sessions, 50)
    assert made(sessions, 60) is None
    assert not sessions.apply(first, [wanted((b"n" * 30_000, 0))], [])
    assert (len(sessions), sessions.pinned_bytes) == (0, 0)


def test_a_session_that_ended_while_its_request_was_decoded_grows_no_more() -> None:
    sessions = cache()
    session = created(sessions)
    sessions.close(session.session_id)
    assert not sessions.apply(session, partitions(2), ())
    assert sessions.pinned_bytes == 0


def test_who_takes_most_loses_his_largest_session_to_another_host() -> None:
    sessions = cache(capacity=99)
    sessions.bytes_max = 100 * PARTITION_BYTES
    small, large = created(sessions, 20), created(sessions, 60)
    newcomer = created(sessions, 30, peer=OTHER)
    assert lives(sessions, small)
    assert lives(sessions, newcomer)
    assert not lives(sessions, large)
    assert made(sessions, 60) is None  # back again: now nobody has more than he would
    assert lives(sessions, newcomer)


def test_who_would_take_most_is_refused_and_nobody_loses_anything() -> None:
    sessions = cache(capacity=99)
    sessions.bytes_max = 100 * PARTITION_BYTES
    others = [created(sessions, 20, peer=OTHER) for _ in range(2)]
    assert made(sessions, 70) is None
    assert all(lives(sessions, other) for other in others)


def test_of_one_host_the_largest_session_goes_when_it_is_more_than_twice_the_newcomer() -> None:
    sessions = cache(capacity=99)
    sessions.bytes_max = 100 * PARTITION_BYTES
    large, small = created(sessions, 60), created(sessions, 25)
    assert made(sessions, 35) is None
    assert lives(sessions, large)
    assert made(sessions, 25) is not None
    assert not lives(sessions, large)
    assert lives(sessions, small)


def test_a_full_cache_makes_room_for_another_host_and_not_for_more_of_the_same() -> None:
    sessions = cache(capacity=2)
    first, second = created(sessions, 2), created(sessions, 3)
    assert made(sessions, 2) is None
    assert made(sessions, 2, peer=OTHER) is not None
    assert lives(sessions, first)
    assert not lives(sessions, second)
    assert len(sessions) == 2


def test_partitions_are_updated_and_forgotten_by_later_requests() -> None:
    session = created(cache())
    session.apply([wanted(A, 5), wanted(B, 6)], [])
    session.apply([wanted(A, 9)], [B])
    assert {key: part.fetch_offset for key, part in session.partitions.items()} == {A: 9}


def test_a_partition_that_is_named_and_forgotten_in_one_request_is_forgotten() -> None:
    session = created(cache())
    session.apply([wanted(A)], [])
    session.apply([wanted(A, 9), wanted(B)], [A, B])
    assert session.partitions == {}
    assert session.size_bytes == SESSION_BYTES


def test_a_served_partition_goes_behind_the_others() -> None:
    session = created(cache())
    session.apply([wanted(A), wanted(B)], [])
    session.served(A)
    assert list(session.partitions) == [B, A]


def test_an_incremental_answer_names_a_partition_only_when_something_changed() -> None:
    partition = wanted(A)
    seen: dict[str, Any] = {"size": 0, "is_told": False, "high_watermark": 7, "log_start_offset": 0}
    assert partition.has_news(**seen)
    assert not partition.has_news(**seen)
    assert partition.has_news(**(seen | {"size": 10}))
    assert partition.has_news(**(seen | {"high_watermark": 8}))
    assert partition.has_news(**(seen | {"is_told": True}))
    assert partition.has_news(**(seen | {"is_told": True}))
    assert partition.has_news(**(seen | {"high_watermark": 8}))
    assert not partition.has_news(**(seen | {"high_watermark": 8})), "the error is over"
