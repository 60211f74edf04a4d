"""When a client instance may ask and push, and when it is forgotten."""

from collections.abc import Mapping
from uuid import UUID

import pytest

from penstock.telemetry import instances as room
from penstock.telemetry.errors import (
    EarlyRequest,
    InstanceEnded,
    InvalidInstance,
    UnknownSubscription,
)
from penstock.telemetry.instances import Instance, Instances
from penstock.telemetry.subscriptions import Subscriptions

INTERVAL_MS = 1_000
ID = UUID(int=1 << 64)
NONE: Mapping[str, str] = {}


def asking(**more: str) -> Subscriptions:
    return Subscriptions({"all": {"metrics": "*", "interval.ms": str(INTERVAL_MS), **more}})


@pytest.fixture
def instance() -> Instance:
    now = asking()
    return Instance(now.asked_of(ID, NONE), now)


def push(instance: Instance, now_ms: int, *, number: int | None = None, last: bool = False) -> None:
    wanted = instance.asked.subscription_id if number is None else number
    instance.push(now_ms, wanted, is_last=last)


def test_it_asks_once_an_interval(instance: Instance) -> None:
    instance.get(0)
    with pytest.raises(EarlyRequest):
        instance.get(INTERVAL_MS - 1)
    instance.get(INTERVAL_MS)


def test_it_pushes_at_once_after_it_has_asked_and_then_once_an_interval(instance: Instance) -> None:
    instance.get(0)
    push(instance, 10)
    with pytest.raises(EarlyRequest):
        push(instance, 10 + INTERVAL_MS - 1)
    push(instance, 10 + INTERVAL_MS)


def test_a_refused_request_does_not_put_off_the_next_one(instance: Instance) -> None:
    push(instance, 0)
    for at in range(0, INTERVAL_MS, 100):
        with pytest.raises(EarlyRequest):
            push(instance, at)
        with pytest.raises(EarlyRequest):
            instance.get(at)
    push(instance, INTERVAL_MS)


def test_asking_waits_for_the_interval_after_a_push(instance: Instance) -> None:
    push(instance, 500)
    with pytest.raises(EarlyRequest):
        instance.get(INTERVAL_MS)
    instance.get(500 + INTERVAL_MS)


def test_a_push_of_something_else_has_it_ask_and_push_at_once(instance: Instance) -> None:
    with pytest.raises(UnknownSubscription):
        push(instance, 0, number=instance.asked.subscription_id ^ 1)
    instance.get(0)
    push(instance, 0)
    with pytest.raises(EarlyRequest):
        instance.get(1)


def test_leave_to_ask_at_once_ends_with_a_push_that_is_taken(instance: Instance) -> None:
    with pytest.raises(UnknownSubscription):
        push(instance, 0, number=instance.asked.subscription_id ^ 1)
    push(instance, INTERVAL_MS)
    with pytest.raises(EarlyRequest):
        instance.get(INTERVAL_MS + 1)
    instance.get(2 * INTERVAL_MS)


def test_leave_to_ask_at_once_outlasts_a_push_that_is_too_early(instance: Instance) -> None:
    with pytest.raises(UnknownSubscription):
        push(instance, 0, number=instance.asked.subscription_id ^ 1)
    with pytest.raises(EarlyRequest):
        push(instance, 1)
    instance.get(2)


def test_pushes_of_something_else_are_no_way_around_the_interval(instance: Instance) -> None:
    push(instance, 0)
    with pytest.raises(EarlyRequest):
        push(instance, 1, number=instance.asked.subscription_id ^ 1)
    with pytest.raises(EarlyRequest):
        instance.get(2)


def test_the_last_push_comes_at_any_time_and_none_after_it(instance: Instance) -> None:
    push(instance, 0)
    push(instance, 1, last=True)
    with pytest.raises(InstanceEnded):
        push(instance, 1 + INTERVAL_MS)


class Table:
    """Instances with ids that count."""

    def __init__(self) -> None:
        self.drawn = 100
        self.all = Instances(self._draw)

    def _draw(self) -> UUID:
        self.drawn += 1
        return UUID(int=self.drawn)

    def known(self, given: UUID | None, now: Subscriptions, now_ms: int = 0) -> Instance:
        return self.all.known(given, NONE, now, now_ms)


def test_who_has_no_id_gets_one_that_nobody_has() -> None:
    table, now = Table(), asking()
    table.known(UUID(int=101), now)
    assert table.all.id_of(None) == UUID(int=102)
    assert table.all.id_of(UUID(int=0)) == UUID(int=103)
    assert table.all.id_of(ID) == ID


@pytest.mark.parametrize("given", [None, UUID(int=0), UUID(int=1)])
def test_reserved_ids_are_no_instances(given: UUID | None) -> None:
    with pytest.raises(InvalidInstance):
        Table().known(given, asking())


def test_an_instance_is_told_of_a_change_at_once_and_of_the_same_not() -> None:
    table, now = Table(), asking()
    known = table.known(ID, now)
    known.get(0)
    same = table.known(ID, asking(), 1)
    with pytest.raises(EarlyRequest):
        same.get(1)
    changed = table.known(ID, asking(metrics="org."), 2)
    assert changed.asked.metrics == ("org.",)
    changed.get(2)


def test_the_one_that_was_not_used_for_the_longest_time_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "INSTANCES_MAX", 3)
    table, now = Table(), asking()
    ids = [UUID(int=1 << 64 | number) for number in range(4)]
    found = [table.known(one, now) for one in ids[:3]]
    assert table.known(ids[0], now) is found[0]
    table.known(ids[3], now)
    assert (len(table.all), table.all.evicted) == (3, 1)
    assert table.known(ids[0], now) is found[0]
    assert table.known(ids[1], now) is not found[1]


@pytest.mark.parametrize(("interval_ms", "idle_ms"), [(1_000, 60_000), (100_000, 300_000)])
def test_an_idle_instance_is_forgotten(interval_ms: int, idle_ms: int) -> None:
    table, now = Table(), asking(**{"interval.ms": str(interval_ms)})
    table.known(ID, now)
    for at in (0, idle_ms - 1):
        for _ in range(2):
            table.all.expire(at)
    assert len(table.all) == 1
    for _ in range(2):
        table.all.expire(idle_ms)
    assert len(table.all) == 0


def test_one_that_comes_back_after_that_is_a_new_one() -> None:
    table, now = Table(), asking()
    known = table.known(ID, now)
    push(known, 0, last=True)
    again = table.known(ID, now, room.IDLE_MS_MIN)
    push(again, room.IDLE_MS_MIN)


def test_a_tick_looks_at_some_and_all_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOOKED_AT", 2)
    table, now = Table(), asking()
    for number in range(7):
        table.known(UUID(int=1 << 64 | number), now)
    left = []
    for _ in range(6):
        table.all.expire(room.IDLE_MS_MIN)
        left.append(len(table.all))
    assert left[-1] == 0
    assert all(before - after <= 2 for before, after in zip([7, *left], left, strict=False))
