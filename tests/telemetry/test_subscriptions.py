"""What is asked of which client."""

from uuid import UUID

import pytest
from crc32c import crc32c

from penstock.telemetry import subscriptions as room
from penstock.telemetry.subscriptions import INTERVAL_MS_DEFAULT, Subscriptions, id_text

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
CLIENT = {"client_id": "app-1", "client_software_name": "librdkafka"}


def test_who_matches_nothing_is_asked_for_nothing() -> None:
    asked = Subscriptions({"x": {"metrics": "*", "match": "client_id=other"}}).asked_of(ID, CLIENT)
    assert (asked.metrics, asked.interval_ms) == ((), INTERVAL_MS_DEFAULT)


def test_of_several_all_metrics_count_and_the_shortest_interval() -> None:
    kept = {
        "one": {"metrics": "org.b, org.a", "interval.ms": "9000"},
        "two": {"metrics": "org.a,org.c", "interval.ms": "7000", "match": "client_id=app-.*"},
        "not": {"metrics": "org.d", "interval.ms": "100", "match": "client_id=app"},
    }
    asked = Subscriptions(kept).asked_of(ID, CLIENT)
    assert asked.metrics == ("org.a", "org.b", "org.c")
    assert asked.interval_ms == 7_000


def test_everything_stands_alone() -> None:
    kept = {"one": {"metrics": "org.a"}, "two": {"metrics": "*"}}
    assert Subscriptions(kept).asked_of(ID, CLIENT).metrics == ("*",)


def test_an_interval_longer_than_the_default_is_not_waited_for_as_in_kafka() -> None:
    kept = {"one": {"metrics": "*", "interval.ms": "3600000"}}
    assert Subscriptions(kept).asked_of(ID, CLIENT).interval_ms == INTERVAL_MS_DEFAULT


@pytest.mark.parametrize(
    ("match", "does"),
    [
        ("client_id=app-1", True),
        ("client_id=app", False),  # the whole text has to match
        ("client_id=app.*,client_software_name=lib.*", True),
        ("client_id=app.*,client_software_name=java", False),
        ("client_software_version=.*", False),  # it does not say
        (f"client_instance_id={id_text(ID)}", True),
        ("client_instance_id=A.*", True),
        ("client_instance_id=B.*", False),
    ],
)
def test_all_patterns_have_to_match(match: str, does: bool) -> None:
    asked = Subscriptions({"one": {"metrics": "*", "match": match}}).asked_of(ID, CLIENT)
    assert bool(asked.metrics) is does


def test_the_number_is_the_same_at_every_broker_and_another_for_another_question() -> None:
    one = {"metrics": "b,a", "interval.ms": "500"}
    (number,) = {
        Subscriptions({name: dict(values)}).asked_of(ID, CLIENT).subscription_id
        for name, values in (("x", one), ("y", dict(reversed(one.items()))))
    }
    assert -(1 << 31) <= number < 1 << 31
    folded = 0x00112233 ^ 0x44556677 ^ 0x8899AABB ^ 0xCCDDEEFF
    assert number & 0xFFFFFFFF == crc32c(b"a\nb\n500") ^ folded
    others = [{"metrics": "a", "interval.ms": "500"}, {"metrics": "b,a", "interval.ms": "501"}]
    for other in others:
        assert Subscriptions({"x": other}).asked_of(ID, CLIENT).subscription_id != number
    assert Subscriptions({"x": one}).asked_of(UUID(int=5), CLIENT).subscription_id != number


def test_so_many_count_and_what_cannot_be_read_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SUBSCRIPTIONS_MAX", 2)
    kept = {name: {"metrics": name} for name in "dcb"} | {"a": {"match": "client_id=(?=x)"}}
    made = Subscriptions(kept)
    assert made.asked_of(ID, CLIENT).metrics == ("b", "c")
    assert made.left_out == ["a", "d"]


def test_what_sets_of_subscriptions_ask_for_is_remembered_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "KEPT_MAX", 4)
    made = Subscriptions({n: {"metrics": n, "match": f"client_id=.*{n}.*"} for n in "abcd"})
    for number in range(16):
        name = "".join(n for at, n in enumerate("abcd") if number >> at & 1)
        asked = made.asked_of(ID, {"client_id": name})
        assert asked.metrics == tuple(name)
        assert len(made._together) <= 4
