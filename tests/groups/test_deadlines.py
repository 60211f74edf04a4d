"""The deadlines against a dictionary that is scanned."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.deadlines import Deadlines
from penstock.groups.deadlines import DeadlineKey, DeadlineKind


def key(name: int) -> DeadlineKey:
    return DeadlineKey(DeadlineKind.SESSION, "g", str(name))


def test_equal_times_come_in_the_order_they_were_set() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for name in (3, 1, 2):
        deadlines.set(key(name), 10)
    assert [k.member_id for k in deadlines.pop_due(10)] == ["3", "1", "2"]


def test_many_heartbeats_do_not_grow_the_heap() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for now in range(10_000):
        deadlines.set(key(0), now + 100)
    assert len(deadlines._times) == 1


def test_members_that_come_and_go_do_not_grow_the_heap() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for name in range(10_000):
        deadlines.set(key(name), 1_000_000)
        deadlines.cancel(key(name))
    assert len(deadlines) == 0
    assert len(deadlines._times) < 100


def test_deadlines_come_in_their_order_also_when_most_of_those_before_were_cancelled() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for at_ms in range(400, 0, -1):
        deadlines.set(key(at_ms), at_ms)
    for at_ms in range(1, 400):
        if at_ms % 7:
            deadlines.cancel(key(at_ms))
    deadlines.set(key(500), 500)
    assert len(deadlines._times) < 100, "the leftovers are gone"
    left = [at_ms for at_ms in (*range(1, 401), 500) if at_ms in {400, 500} or not at_ms % 7]
    for at_ms in left:
        assert deadlines.next_ms() == at_ms
        assert [k.member_id for k in deadlines.pop_due(at_ms)] == [str(at_ms)]


def test_sessions_that_begin_in_one_moment_share_one_time() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for name in range(1_000):
        deadlines.set(key(name), 10)
    for name in range(0, 1_000, 2):
        deadlines.cancel(key(name))
    assert len(deadlines._times) == 1
    assert [k.member_id for k in deadlines.pop_due(10)] == [str(n) for n in range(1, 1_000, 2)]
    assert deadlines.next_ms() is None


def test_times_that_nothing_is_due_at_do_not_stay() -> None:
    deadlines = Deadlines[DeadlineKey]()
    for name in range(10_000):
        deadlines.set(key(name), 1_000 + name)
        deadlines.cancel(key(name))
    assert len(deadlines._times) < 100


steps = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 60)),
    st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("pass"), st.just(0), st.integers(0, 20)),
)


@given(st.lists(steps, max_size=60))
def test_agrees_with_a_scanned_dictionary(script: list[tuple[str, int, int]]) -> None:
    deadlines, twin, now = Deadlines[DeadlineKey](), dict[DeadlineKey, int](), 0
    for verb, name, value in script:
        if verb == "set":
            deadlines.set(key(name), now + value)
            twin[key(name)] = now + value
        elif verb == "cancel":
            deadlines.cancel(key(name))
            twin.pop(key(name), None)
        else:
            now += value
            due = {k for k, at in twin.items() if at <= now}
            assert {*deadlines.pop_due(now)} == due
            twin = {k: at for k, at in twin.items() if k not in due}
        upcoming = deadlines.next_ms()
        assert (upcoming is None) <= (not twin)
        if twin and upcoming is not None:
            assert upcoming <= min(twin.values())
        assert len(deadlines) == len(twin)
