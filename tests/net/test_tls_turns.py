"""Whose turn it is to shake hands, counted in turns: a crowd of hellos costs others few of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.net.tls.addresses import (
    ADDRESSES_MAX,
    LAST,
    PROVED,
    REMEMBERED_TICKS,
    UNKNOWN,
    Addresses,
)
from penstock.net.tls.handshakes import BEGUN_IN_TURN, HALF_OPEN_MAX, PLACE_TICKS, Handshakes
from penstock.net.tls.waiting import CROWD, OTHER_WAY_ROUND


@dataclass(eq=False)
class Client:
    """A client that has sent its first record, and may send no more."""

    host: str
    world: "World"
    began_tick: int
    has_begun: bool = False
    is_ended: bool = False

    def begin(self) -> bool:
        self.has_begun = True
        self.world.begun.append(self)
        return True

    def give_up(self, reason: str) -> None:
        del reason
        assert not self.is_ended, "once"
        self.is_ended = True
        self.world.handshakes.leave(self)


@dataclass
class World:
    """Handshakes whose turns and seconds are counted."""

    tick: int = 0
    begun: list[Client] = field(default_factory=list)
    soon: list[Callable[[], None]] = field(default_factory=list)
    addresses: Addresses = field(default_factory=Addresses)

    def __post_init__(self) -> None:
        self.handshakes = Handshakes(self.soon.append, lambda: self.tick, self.addresses)

    def ask(self, *hosts: str) -> list[Client]:
        clients = [Client(host, self, self.tick) for host in hosts]
        for client in clients:
            self.handshakes.all[client] = None
            self.handshakes.ask(client)
        return clients

    def turns(self, count: int) -> None:
        for _ in range(count):
            due, self.soon[:] = list(self.soon), []
            for work in due:
                work()

    def begin(self, count: int) -> list[Client]:
        """Let that many more be begun, and return them."""
        before = len(self.begun)
        while len(self.begun) < before + count:
            assert self.soon, "nobody is begun any more"
            self.turns(1)
        return self.begun[before : before + count]

    def second(self) -> None:
        self.tick += 1
        self.handshakes.sweep()

    def finish(self, client: Client) -> None:
        self.handshakes.leave(client, is_open=True)


def crowd(count: int) -> list[str]:
    return [f"10.1.{number // 250}.{number % 250}" for number in range(count)]


def test_who_has_proved_it_before_is_begun_in_the_next_turn_beside_a_crowd() -> None:
    world = World()
    world.addresses.proved("10.9.9.9", 0)
    world.ask(*crowd(1_000))
    world.begin(10)
    (client,) = world.ask("10.9.9.9")
    assert client in world.begin(2 * BEGUN_IN_TURN)


def test_a_newcomer_is_begun_before_addresses_that_have_wasted_a_handshake() -> None:
    world = World()
    for host in crowd(500):
        world.addresses.failed(host, 0, is_answered=True)
    world.ask(*crowd(500))
    world.begin(10)
    (client,) = world.ask("10.9.9.9")
    assert client in world.begin(2 * BEGUN_IN_TURN)


def test_those_who_have_wasted_one_have_a_turn_in_eight() -> None:
    world = World()
    world.addresses.failed("10.9.9.9", 0, is_answered=True)
    (client, *_) = world.ask("10.9.9.9", *crowd(100))
    assert client in world.begin(OTHER_WAY_ROUND)
    assert world.begun[: OTHER_WAY_ROUND - 1].count(client) == 0


def test_a_crowd_costs_a_newcomer_two_turns() -> None:
    world = World()
    world.ask(*crowd(1_000))
    (client,) = world.ask("10.9.9.9")
    begun = world.begin(6)[:6]
    assert client in begun[:2]
    oldest = [one.host for one in begun if one.host in crowd(10)]
    assert oldest == crowd(3), "the oldest have every second one"


def test_few_are_begun_in_order() -> None:
    world = World()
    hosts = crowd(CROWD)
    world.ask(*hosts)
    assert [one.host for one in world.begin(CROWD)] == hosts


def test_many_of_an_address_are_no_newcomers_once_it_had_a_turn() -> None:
    world = World()
    world.ask(*crowd(CROWD + 20), *(["10.8.8.8"] * 20))
    assert [one.host for one in world.begin(20)].count("10.8.8.8") <= 2


def test_a_handshake_that_comes_to_nothing_is_remembered_and_one_that_is_done_is_not() -> None:
    world = World()
    lost, done, unheard = world.ask("10.0.0.1", "10.0.0.2", "10.0.0.3")
    world.begin(3)
    unheard.has_begun = False  # it had gone before anything was signed
    world.handshakes.leave(lost)
    world.finish(done)
    world.handshakes.leave(unheard)
    ranks = [world.addresses.rank(f"10.0.0.{number}", 0) for number in (1, 2, 3)]
    assert ranks == [LAST, UNKNOWN, UNKNOWN + 1]


def test_the_half_open_of_those_who_waste_give_way_at_once() -> None:
    world = World()
    for host in crowd(HALF_OPEN_MAX):
        world.addresses.failed(host, 0, is_answered=True)
    world.ask(*crowd(HALF_OPEN_MAX))
    half_open = world.begin(HALF_OPEN_MAX)
    (client,) = world.ask("10.9.9.9")
    world.begin(1)
    assert client.has_begun
    assert [one for one in half_open if one.is_ended] == half_open[:1]


def test_the_half_open_of_a_newcomer_has_its_time() -> None:
    """Whoever is ended in the second in which it was begun has wasted nothing."""
    world = World()
    world.ask(*crowd(HALF_OPEN_MAX))
    half_open = world.begin(HALF_OPEN_MAX)
    world.ask("10.9.9.9")
    world.turns(20)
    assert not any(one.is_ended for one in half_open)
    world.addresses.proved("10.9.9.8", 0)
    world.ask("10.9.9.8")
    world.begin(1)
    assert half_open[0].is_ended
    assert world.addresses.rank(half_open[0].host, 0) == UNKNOWN
    for _ in range(PLACE_TICKS):
        world.second()
    world.begin(1)
    assert [at for at, one in enumerate(half_open) if one.is_ended] == [0, 1]
    assert world.addresses.rank(half_open[1].host, world.tick) == LAST


def test_a_failure_takes_back_a_proof_before_it_counts() -> None:
    addresses = Addresses()
    seen = []
    addresses.proved("a", 0)
    for _ in range(5):
        addresses.failed("a", 1, is_answered=False)
        seen.append(addresses.rank("a", 1))
    addresses.proved("a", 2)
    assert [*seen, addresses.rank("a", 2)] == [UNKNOWN, 2, 3, LAST, LAST, PROVED]
    addresses.failed("b", 1, is_answered=True)
    assert addresses.rank("b", 1) == LAST


def test_an_old_proof_counts_no_more_when_something_fails() -> None:
    addresses = Addresses()
    addresses.proved("a", 0)
    addresses.failed("a", REMEMBERED_TICKS, is_answered=False)
    assert addresses.rank("a", REMEMBERED_TICKS) == UNKNOWN + 1


def test_addresses_are_forgotten_in_time_and_beyond_a_bound_oldest_first() -> None:
    addresses = Addresses()
    addresses.proved("p", 0)
    addresses.failed("w", 0, is_answered=True)
    last = REMEMBERED_TICKS - 1
    assert (addresses.rank("p", last), addresses.rank("w", last)) == (PROVED, LAST)
    assert addresses.rank("p", last + 1) == addresses.rank("w", last + 1) == UNKNOWN
    for number in range(ADDRESSES_MAX):
        addresses.proved(f"p{number}", 1)
        addresses.failed(f"w{number}", 1, is_answered=True)
    assert addresses.rank("p", 1) == addresses.rank("w", 1) == UNKNOWN
    assert addresses.rank("p0", 1) == PROVED
    assert addresses.rank("w0", 1) == LAST


def test_who_stops_waiting_leaves_nothing_behind() -> None:
    world = World()
    clients = world.ask("10.0.0.1", "10.0.0.1", "10.0.0.2")
    for client in clients:
        world.handshakes.leave(client)
    world.turns(10)
    assert (world.begun, len(world.handshakes._waiting)) == ([], 0)
    world.ask("10.0.0.1")
    assert len(world.begin(1)) == 1


def test_the_newest_of_a_crowd_may_stop_waiting() -> None:
    world = World()
    *_, newest = world.ask(*crowd(CROWD + 20))
    world.handshakes.leave(newest)
    assert newest not in world.begin(CROWD + 19)
    assert len(world.handshakes._waiting) == 0
