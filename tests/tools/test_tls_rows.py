"""What the rows of TLS and of access make of what they measure."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.access_cost import Cost, row_of
from benchmarks.parts.closed_node import USER, login_requests, rules
from benchmarks.peers.model import SMOKE, Answer, Scale
from benchmarks.peers.over_tls import Loaded
from benchmarks.peers.rows import all_groups
from benchmarks.peers.tls_rows import (
    GROUP,
    LOSS_MIN,
    price_of_bytes,
    price_of_waiting,
    priced,
)


class Way:
    """A way into a server that answers with what it is given."""

    def __init__(self, name: str, speeds: list[float]) -> None:
        self.name, self.speeds = name, iter(speeds)
        self.bootstrap, self.load = name, None

    def cpu_seconds(self) -> float:
        return 0.0


class Server(Way):
    """The plain way, and where the other one is."""

    def __init__(self, plain: list[float], tls: list[float]) -> None:
        super().__init__("plain", plain)
        self.tls = Way("tls", tls)

    def over_tls(self) -> Way:
        return self.tls


def bytes_of(speed: float) -> Answer:
    return {"MB/s": speed, "cpu": 1.0, "client_cpu": 2.0}


def test_both_ways_are_asked_in_turns_and_their_means_make_the_price() -> None:
    asked: list[str] = []

    def ask(way: Any, scale: Scale) -> Answer:
        del scale
        asked.append(way.name)
        return bytes_of(next(way.speeds))

    server: Any = Server([100.0, 60.0], [50.0, 30.0])
    answer = priced(ask, price_of_bytes)(server, SMOKE)
    assert asked == ["plain", "tls", "tls", "plain"]
    assert (answer["plain"], answer["tls"], answer["lost"]) == (80.0, 40.0, 0.5)


@pytest.mark.parametrize("tls", [100.0, 120.0, 99.9])
def test_a_loss_that_can_not_be_told_from_none_is_the_least(tls: float) -> None:
    ways = {"plain": bytes_of(100.0), "tls": bytes_of(tls)}
    assert price_of_bytes(ways)["lost"] == LOSS_MIN


def test_rows_of_tls_compare_servers_that_have_both_ways() -> None:
    assert GROUP in all_groups()
    for question in GROUP.questions:
        assert all(spec.has_tls for spec in question.specs)
        assert all(spec.label.endswith(", TLS") for spec in question.specs)


def test_every_figure_of_a_row_of_tls_is_in_its_answer() -> None:
    def keys(way: Loaded, scale: Scale) -> Answer:
        del way, scale
        return dict.fromkeys(("MB/s", "cpu", "client_cpu", "p50", "p99"), 1.0)

    for question in GROUP.questions:
        price = priced(keys, price_of_waiting if "latency" in question.name else price_of_bytes)
        server: Any = Server([], [])
        assert {one.key for one in question.figures} <= price(server, SMOKE).keys()


def test_a_ratio_of_access_is_of_the_two_of_one_turn() -> None:
    turns = [
        (Cost(100.0, 10.0), Cost(90.0, 11.0)),
        (Cost(10.0, 20.0), Cost(10.0, 20.0)),
        (Cost(50.0, 10.0), Cost(25.0, 10.2)),
    ]
    row = row_of("case", "MB/s", turns)
    assert (row["ratio"], row["from"], row["to"]) == (0.9, 0.5, 1.0)
    assert row["more CPU %"] == pytest.approx(2.0)
    assert row["CPU to"] == pytest.approx(10.0)


def test_the_measured_user_needs_its_rules_and_has_one_for_each_topic() -> None:
    made = rules(1_000)
    own = [one for one in made if one.principal == f"User:{USER}"]
    assert (len(made), len(set(made)), len(own)) == (1_000, 1_000, 500)
    assert {one.resource_name for one in own} == {f"bench-{number}" for number in range(250)}


def frames(data: bytes) -> Iterator[bytes]:
    while data:
        size = int.from_bytes(data[:4], "big")
        yield data[4 : 4 + size]
        data = data[4 + size :]


def test_a_login_is_a_handshake_and_a_token() -> None:
    handshake, token = frames(login_requests())
    assert handshake.endswith(b"\x00\x05PLAIN")
    assert b"\x00alice\x00" in token
