"""Rows of a fold: their sums, their bound, and the time they are of."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.audit.fold import LENGTH_MS, Fold
from penstock.audit.row import OTHERS, RowKey, Who, others_of

NOON_MS = 720 * LENGTH_MS
EVENTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 20), st.integers(0, 90_000)))


def key(number: int) -> RowKey:
    return RowKey(Who(f"User:{number}", "c", "", "", "::1"), "Produce", "t", number)


@given(EVENTS, st.integers(1, 10))
def test_sums_of_rows_are_the_sums_of_events_whatever_the_bound(
    events: list[tuple[int, int, int]], most: int
) -> None:
    fold = Fold(NOON_MS, most=most)
    wall_ms, told = NOON_MS, Counter[str]()
    own, shared = Counter[int](), 0
    for number, size, passed_ms in events:
        wall_ms += passed_ms
        if fold.is_over(wall_ms):
            told.update(taken(fold, wall_ms, most))
            own.clear()
        if own[number] or len(own) < most:
            own[number] += 1
        else:
            del own[number]
            shared += 1
        row = fold.row(key(number))
        row.requests += 1
        row.bytes_in += size
    told.update(taken(fold, wall_ms, most))
    assert told["requests"] == len(events)
    assert told["bytes"] == sum(size for _, size, _ in events)
    assert told["others"] == fold.beyond == shared


def taken(fold: Fold, wall_ms: int, most: int) -> dict[str, int]:
    rows = fold.take(wall_ms).rows
    assert len(rows.keys() - {OTHERS}) <= most
    assert not len(fold)
    sums = [(one.requests, one.bytes_in) for one in rows.values()]
    others = rows[OTHERS].requests if OTHERS in rows else 0
    return {
        "requests": sum(one for one, _ in sums),
        "bytes": sum(size for _, size in sums),
        "others": others,
    }


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30))), st.integers(1, 20))
def test_whoever_has_how_many_rows_all_of_them_have_a_bound(
    events: list[tuple[int, int]], most: int
) -> None:
    fold = Fold(NOON_MS, most=most)
    for user, number in events:
        fold.row(client_key(f"User:{user}", number)).requests += 1
    rows = fold.take(NOON_MS + 1).rows
    assert len(rows.keys() - {OTHERS}) <= most
    assert sum(one.requests for one in rows.values()) == len(events)


def client_key(principal: str, number: int) -> RowKey:
    return RowKey(Who(principal, f"c-{number}", "", "", "::1"), "produce")


def test_one_principal_that_invents_clients_leaves_room_and_stays_known() -> None:
    fold = Fold(NOON_MS, most=100)
    for _ in range(2):
        for number in range(1_000):
            fold.row(client_key("User:eve", number)).requests += 1
        fold.row(client_key("User:alice", 0)).requests += 1
        rows = fold.take(fold.ends_ms).rows
        assert rows[client_key("User:alice", 0)].requests == 1
        assert rows[others_of("User:eve")].requests == 1_000 - 75
        assert len(rows) == 77


def test_a_fold_is_over_when_the_wall_clock_leaves_it() -> None:
    fold = Fold(NOON_MS + 1_234)
    assert (fold.began_ms, fold.ends_ms) == (NOON_MS + 1_234, NOON_MS + LENGTH_MS)
    assert not fold.is_over(NOON_MS + LENGTH_MS - 1)
    assert fold.is_over(NOON_MS + LENGTH_MS)
    assert fold.is_over(NOON_MS + 1_233)


def test_a_fold_lasts_until_it_is_taken_and_the_next_one_begins_there() -> None:
    fold = Fold(NOON_MS, length_ms=500)
    assert fold.take(NOON_MS + 830)[:2] == (NOON_MS, NOON_MS + 830)
    assert (fold.began_ms, fold.ends_ms) == (NOON_MS + 830, NOON_MS + 1_000)
    back = fold.take(NOON_MS - 7)
    assert back.ended_ms == back.began_ms + 1, "the clock went back"
    assert (fold.began_ms, fold.ends_ms) == (NOON_MS - 7, NOON_MS)


def test_who_keeps_rows_learns_of_a_new_fold() -> None:
    fold = Fold(NOON_MS)
    kept, generation = fold.row(key(1)), fold.generation
    assert fold.row(key(1)) is kept
    assert fold.take(NOON_MS + LENGTH_MS).rows == {key(1): kept}
    assert fold.generation != generation
    assert fold.row(key(1)) is not kept


def test_a_fold_that_begins_when_one_ends_lasts_as_long_as_any() -> None:
    fold = Fold(NOON_MS)
    assert not fold.is_over(NOON_MS)
    assert not fold.is_over(NOON_MS + LENGTH_MS - 1)
    assert fold.is_over(NOON_MS + LENGTH_MS)
    fold.take(NOON_MS + LENGTH_MS)
    assert fold.ends_ms == NOON_MS + 2 * LENGTH_MS


def of_client(principal: str, client_id: int) -> RowKey:
    return RowKey(Who(principal, f"c{client_id}", "", "", "::1"), "Produce", "t", 0)


def test_each_fold_has_its_places_anew() -> None:
    fold = Fold(NOON_MS, most=160)
    for _ in range(2):
        for number in range(160):
            fold.row(of_client("User:eve", number))
        for number in range(4):
            fold.row(of_client("User:bob", number))
        rows = fold.take(NOON_MS + LENGTH_MS).rows
        assert of_client("User:eve", 0) in rows
        assert others_of("User:bob") not in rows


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9))), st.integers(1, 60))
def test_what_a_principal_does_is_in_its_rows_or_in_those_of_all_others(
    events: list[tuple[int, int]], most: int
) -> None:
    fold, done = Fold(NOON_MS, most=most), Counter[str]()
    for principal, number in events:
        fold.row(of_client(f"User:{principal}", number)).requests += 1
        done[f"User:{principal}"] += 1
    rows = fold.take(NOON_MS + LENGTH_MS).rows
    assert len(rows.keys() - {OTHERS}) <= most
    told = Counter[str]()
    for key, row in rows.items():
        told[key.who.principal] += row.requests
    assert told.total() == len(events)
    left_out = done - told
    assert left_out.total() == told[OTHERS.who.principal]
