from itertools import count

import pytest

from penstock.kafka.fetch import session as fetch_session
from penstock.kafka.fetch.session import (
    FetchSession,
    FetchSessionCache,
    SessionPartition,
)
from penstock.protocol.error_codes import ErrorCode

A, B = (b"a", 0), (b"b", 0)


def cache(capacity: int = 2, idle_ms_min: int = 100) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(capacity, idle_ms_min, lambda: next(ids))


def wanted(key: tuple[bytes, int], offset: int = 0) -> SessionPartition:
    return SessionPartition(key, offset, 1000, -1, -1)


def created(sessions: FetchSessionCache, now_ms: int = 0) -> FetchSession:
    session = sessions.create(uses_topic_ids=False, now_ms=now_ms)
    assert session is not None
    return session


def test_a_session_expects_its_epochs_one_after_another() -> None:
    sessions = cache()
    session = created(sessions)
    for epoch in (1, 2, 3):
        resumed = sessions.resume(session.session_id, epoch, uses_topic_ids=False, now_ms=0)
        assert resumed is session


def test_a_repeated_or_skipped_epoch_is_refused() -> None:
    sessions = cache()
    session = created(sessions)
    for epoch in (0, 2):
        found = sessions.resume(session.session_id, epoch, uses_topic_ids=False, now_ms=0)
        assert found is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_an_unknown_session_is_refused() -> None:
    found = cache().resume(77, 1, uses_topic_ids=False, now_ms=0)
    assert found is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_made_with_names_can_not_go_on_with_topic_ids() -> None:
    sessions = cache()
    session = created(sessions)
    found = sessions.resume(session.session_id, 1, uses_topic_ids=True, now_ms=0)
    assert found is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_epoch_after_the_largest_one_is_one() -> None:
    session = created(cache())
    session.next_epoch = 2**31 - 1
    session.advance()
    assert session.next_epoch == 1


def test_a_full_cache_makes_room_only_by_a_session_that_was_idle() -> None:
    sessions = cache(capacity=1, idle_ms_min=100)
    first = created(sessions)
    assert sessions.create(uses_topic_ids=False, now_ms=99) is None
    assert sessions.create(uses_topic_ids=False, now_ms=100) is not None
    found = sessions.resume(first.session_id, 1, uses_topic_ids=False, now_ms=100)
    assert found is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_without_places_there_are_no_sessions() -> None:
    assert cache(capacity=0).create(uses_topic_ids=False, now_ms=10**9) is None


def test_all_sessions_together_follow_a_bounded_number_of_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_session, "PARTITIONS_MAX", 2)
    sessions = cache(capacity=9)
    first, second = created(sessions), created(sessions)
    assert sessions.apply(first, [wanted(A), wanted(B)], [])
    assert not sessions.apply(second, [wanted(A)], [])
    assert len(sessions) == 1
    assert sessions.apply(first, [wanted(A, 7)], [B])
    assert sessions.apply(created(sessions), [wanted(A)], [])


def test_partitions_are_updated_and_forgotten_by_later_requests() -> None:
    session = created(cache())
    session.apply([wanted(A, 5), wanted(B, 6)], [])
    session.apply([wanted(A, 9)], [B])
    assert {key: part.fetch_offset for key, part in session.partitions.items()} == {A: 9}


def test_a_served_partition_goes_behind_the_others() -> None:
    session = created(cache())
    session.apply([wanted(A), wanted(B)], [])
    session.served(A)
    assert list(session.partitions) == [B, A]


def test_an_incremental_answer_names_a_partition_only_when_something_changed() -> None:
    partition = wanted(A)
    seen = {"size": 0, "is_told": False, "high_watermark": 7, "log_start_offset": 0}
    assert partition.has_news(**seen)
    assert not partition.has_news(**seen)
    assert partition.has_news(**(seen | {"size": 10}))
    assert partition.has_news(**(seen | {"high_watermark": 8}))
    assert partition.has_news(**(seen | {"is_told": True}))
    assert partition.has_news(**(seen | {"is_told": True}))
    assert partition.has_news(**(seen | {"high_watermark": 8}))
