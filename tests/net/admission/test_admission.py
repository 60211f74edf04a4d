"""Who is let in, by listener and address, and who has to wait."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.net.admission.admission import PROTECTED_PLACES, Admission
from penstock.net.admission.creation_rate import CreationRate
from penstock.net.admission.doorkeeper import Doorkeeper
from penstock.net.admission.own_limits import ListenerLimits
from penstock.net.errors import RefuseKind, WaitKind, YieldKind
from penstock.net.limits import NetLimits
from penstock.net.stats import NetStats

OPEN = NetLimits(connections_per_address_max=0, connection_rate_per_address_max=0)
HOST = "10.0.0.1"


def admission(most: int = 1_000, **limits: Any) -> Admission:
    return Admission(replace(OPEN, connections_max=most, **limits), 0.0)


def fill(one: Admission, listener: str, count: int, host: str = HOST) -> None:
    for _ in range(count):
        assert one.refusal(listener, host) is None
        one.came(listener, host)


def test_a_listener_that_is_full_leaves_the_others_open() -> None:
    one = admission(listeners=("OUT.connections_max=2",))
    fill(one, "OUT", 2)
    assert one.refusal("OUT", HOST) is RefuseKind.TOO_MANY_AT_LISTENER
    assert one.refusal("kafka", HOST) is None
    one.gone("OUT", HOST)
    assert one.refusal("OUT", HOST) is None


def test_all_listeners_together_have_the_limit_of_the_node() -> None:
    one = admission(3, listeners=("OUT.connections_max=2",))
    fill(one, "kafka", 2)
    fill(one, "OUT", 1)
    assert one.refusal("OUT", HOST) is RefuseKind.TOO_MANY


def test_who_is_beyond_the_limit_of_its_address_is_told_that_also_where_all_is_full() -> None:
    one = admission(1, listeners=("OUT.connections_max=1",), connections_per_address_max=1)
    fill(one, "OUT", 1)
    assert one.refusal("OUT", HOST) is RefuseKind.TOO_MANY_FROM_ADDRESS
    assert one.refusal("OUT", "10.0.0.2") is RefuseKind.TOO_MANY_AT_LISTENER, "its place is wanted"
    assert one.refusal("kafka", "10.0.0.2") is RefuseKind.TOO_MANY


@pytest.mark.parametrize("most", [4, 40, 1_000])
def test_places_are_kept_for_the_protected_listener(most: int) -> None:
    one = admission(most, protected_listener="OPS")
    kept = min(PROTECTED_PLACES, most // 4)
    fill(one, "kafka", most - kept)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_MANY
    fill(one, "OPS", kept)
    assert one.refusal("OPS", HOST) is RefuseKind.TOO_MANY


def test_the_protected_listener_may_have_more_than_is_kept_for_it() -> None:
    one = admission(40, protected_listener="OPS")
    fill(one, "OPS", 40)
    assert one.refusal("OPS", HOST) is one.refusal("kafka", HOST) is RefuseKind.TOO_MANY
    one.gone("OPS", HOST)
    assert one.refusal("kafka", HOST) is None, "of their own share others have taken nothing"


def test_what_operators_open_takes_nothing_from_the_share_of_others() -> None:
    one = admission(40, protected_listener="OPS")
    fill(one, "OPS", 10)
    fill(one, "kafka", 30)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_MANY


def test_limits_of_addresses_do_not_hold_at_the_protected_listener() -> None:
    one = admission(
        protected_listener="OPS", connections_per_address_max=1, connection_rate_per_address_max=1
    )
    fill(one, "kafka", 1)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_MANY_FROM_ADDRESS
    for _ in range(3):
        one.tried("OPS", HOST, 0.0)
        fill(one, "OPS", 1)
    one.gone("OPS", HOST)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_MANY_FROM_ADDRESS
    one.gone("kafka", HOST)
    assert one.refusal("kafka", HOST) is None


def test_an_address_may_have_more_or_fewer_than_others() -> None:
    one = admission(
        connections_per_address_max=2,
        connections_per_address_overrides=("10.0.0.9:3", "[::1]:1", "10.0.0.8:0"),
    )
    fill(one, "kafka", 2)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_MANY_FROM_ADDRESS
    fill(one, "kafka", 3, "10.0.0.9")
    assert one.refusal("kafka", "10.0.0.9") is RefuseKind.OVER_OVERRIDE
    fill(one, "kafka", 1, "::1")
    assert one.refusal("kafka", "::1") is RefuseKind.OVER_OVERRIDE
    assert one.refusal("kafka", "10.0.0.8") is RefuseKind.OVER_OVERRIDE


def test_an_address_with_an_override_keeps_the_limit_of_new_ones_a_second() -> None:
    one = admission(
        connection_rate_per_address_max=1, connections_per_address_overrides=(f"{HOST}:9",)
    )
    one.tried("kafka", HOST, 0.0)
    assert one.refusal("kafka", HOST) is None
    one.tried("kafka", HOST, 0.0)
    assert one.refusal("kafka", HOST) is RefuseKind.TOO_FAST_FROM_ADDRESS
    one.next_second()
    assert one.refusal("kafka", HOST) is None


def test_other_limits_hold_for_the_next_connection_and_end_none() -> None:
    one = admission()
    fill(one, "OUT", 5)
    one.go_by(replace(OPEN, listeners=("out.connections_max=2",)), 1_000, 0.0)
    assert one.refusal("OUT", HOST) is RefuseKind.TOO_MANY_AT_LISTENER
    assert one.open_count == 5
    one.go_by(OPEN, 1_000, 0.0)
    assert one.refusal("OUT", HOST) is None


# --- rates ---------------------------------------------------------------------------------------


def accepted_until(rate: CreationRate, seconds: float, step: float = 0.001) -> int:
    """As many as a crowd gets in when it is always there."""
    count = 0
    for number in range(int(seconds / step) + 1):
        while not rate.wait_seconds(number * step):
            rate.take()
            count += 1
    return count


def test_a_higher_rate_counts_from_when_it_is_set_on() -> None:
    rate = CreationRate(10, 0.0)
    assert accepted_until(rate, 0) == 10
    rate.go_by(1_000, 0.05)
    assert rate.wait_seconds(0.05) > 0, "half of a connection is there"
    assert not rate.wait_seconds(0.051)


class Leaving:
    """A connection that gives way."""

    listener_name, client_host = "OUT", HOST


def test_who_gave_way_is_taken_from_its_listener_once() -> None:
    stats = NetStats()
    keeper = Doorkeeper(OPEN, stats, list, lambda: 0.0, lambda _: None)
    keeper.came("OUT", HOST)
    client: Any = Leaving()
    keeper._gave_way(YieldKind.IDLE, client)
    assert (stats.open_at["OUT"], keeper.open_count) == (1, 1), "it is on its way out"
    keeper.gone(client)
    assert (stats.open_at["OUT"], keeper.open_count) == (0, 0)


@pytest.mark.parametrize("rate", [1, 7, 20, 500])
def test_a_crowd_gets_a_seconds_worth_at_once_and_then_the_rate(rate: int) -> None:
    assert accepted_until(CreationRate(rate, 0.0), 0) == rate
    assert accepted_until(CreationRate(rate, 0.0), 10) == pytest.approx(11 * rate, abs=1)


def test_after_a_rest_there_is_a_seconds_worth_and_no_more() -> None:
    rate = CreationRate(10, 0.0)
    accepted_until(rate, 0)
    assert rate.wait_seconds(0.0) == pytest.approx(0.1)
    count = 0
    while not rate.wait_seconds(1_000.0):
        rate.take()
        count += 1
    assert count == 10


def test_a_wait_is_long_enough_for_one_and_never_a_spin() -> None:
    rate = CreationRate(1_000, 0.0)
    accepted_until(rate, 0)
    assert rate.wait_seconds(0.0) == 0.01
    assert rate.wait_seconds(0.01) == 0


def test_the_rate_of_a_listener_and_that_of_the_node_hold_both() -> None:
    one = admission(connection_rate_max=3, listeners=("OUT.connection_rate_max=1",))
    assert one.wait("OUT", 0.0)[0] == 0
    one.tried("OUT", HOST, 0.0)
    assert one.wait("OUT", 0.0) == (1.0, WaitKind.TOO_FAST_AT_LISTENER)
    for _ in range(2):
        assert one.wait("kafka", 0.0)[0] == 0
        one.tried("kafka", HOST, 0.0)
    seconds, kind = one.wait("kafka", 0.0)
    assert seconds == pytest.approx(1 / 3)
    assert kind is WaitKind.TOO_FAST


def test_the_rate_of_the_node_does_not_hold_at_the_protected_listener_but_its_own_does() -> None:
    one = admission(
        connection_rate_max=1, listeners=("OPS.connection_rate_max=2",), protected_listener="OPS"
    )
    one.tried("kafka", HOST, 0.0)
    assert one.wait("kafka", 0.0)[0] == 1.0
    for _ in range(2):
        assert one.wait("OPS", 0.0)[0] == 0
        one.tried("OPS", HOST, 0.0)
    assert one.wait("OPS", 0.0) == (0.5, WaitKind.TOO_FAST_AT_LISTENER)
    assert one.wait("kafka", 1.0)[0] == 0, "operators have used nothing of the node's rate"


def test_another_rate_holds_at_once() -> None:
    one = admission()
    one.tried("OUT", HOST, 0.0)
    changed = replace(OPEN, connection_rate_max=2, listeners=("OUT.connection_rate_max=1",))
    one.go_by(changed, 1_000, 0.0)
    one.tried("OUT", HOST, 0.0)
    assert one.wait("OUT", 0.0)[0] == 1.0
    one.go_by(OPEN, 1_000, 0.0)
    assert one.wait("OUT", 0.0)[0] == 0


# --- texts ---------------------------------------------------------------------------------------


def test_names_of_listeners_are_compared_without_regard_to_case() -> None:
    limits = NetLimits(
        listeners=("OUT.connections_max=5", "out.connections_max=6", "Out.connection_rate_max=7")
    )
    assert limits.of_listener("OUT") == ListenerLimits(connections_max=6, connection_rate_max=7)
    assert limits.of_listener("kafka") == ListenerLimits()


@pytest.mark.parametrize(
    "text", ["OUT", "OUT.x=1", "OUT.connections_max=0", "OUT.connections_max=-1", "=1", "a b.x=1"]
)
def test_a_limit_of_a_listener_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"net\.listeners"):
        NetLimits(listeners=(text,))


@pytest.mark.parametrize("text", ["host:5", "10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", ":5", "x"])
def test_an_override_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"net\.connections_per_address_overrides"):
        NetLimits(connections_per_address_overrides=(text,))
