"""Who gives its place to whom: the oldest that are unproven, then the one idle longest."""

from dataclasses import dataclass, replace

import pytest

from penstock.net.admission.admission import PROTECTED_PLACES
from penstock.net.admission.giving_way import GivingWay
from penstock.net.errors import CloseKind, RefuseKind, YieldKind
from penstock.net.limits import NetLimits

LIMITS = NetLimits(unproven_max=4, unproven_per_address_max=2, protected_listener="OPS")
KAFKA, OUT, OPS = "kafka", "OUT", "OPS"
MUCH = 1 << 30


@dataclass(eq=False)
class Client:
    """A connection as those who decide see it."""

    client_host: str = "10.0.0.1"
    listener_name: str = KAFKA
    is_unproven: bool = True
    in_flight: int = 0
    last_tick: int = 0
    received_bytes: int = 0
    ended: CloseKind | None = None

    @property
    def is_closed(self) -> bool:
        return self.ended is not None

    def abort(self, kind: CloseKind) -> None:
        assert self.ended is None, "once"
        self.ended, self.is_unproven = kind, False


class World:
    """Connections and what is told of them."""

    def __init__(self, limits: NetLimits = LIMITS, most: int = 100) -> None:
        self.told: list[tuple[YieldKind, str, str]] = []
        self.open: list[Client] = []
        self.proved: list[object] = []
        self.giving_way = GivingWay(
            lambda: iter(self.open),
            lambda kind, one: self.told.append((kind, one.listener_name, one.client_host)),
            self.proved.append,
        )
        self.giving_way.go_by(limits, most)

    def arrive(self, *clients: Client, tick: int = 0) -> None:
        for client in clients:
            self.open.append(client)
            self.giving_way.arrived(client, tick)

    def gone(self) -> list[int]:
        """Who has given way, by the order of arrival."""
        return [at for at, one in enumerate(self.open) if one.ended is CloseKind.GAVE_WAY]


def from_hosts(count: int, listener: str = KAFKA) -> list[Client]:
    return [Client(f"10.0.0.{number}", listener) for number in range(count)]


def test_beyond_the_bound_the_oldest_gives_way() -> None:
    world = World()
    world.arrive(*from_hosts(6))
    assert world.gone() == [0, 1]
    assert world.told == [(YieldKind.UNPROVEN, KAFKA, f"10.0.0.{one}") for one in range(2)]


def test_an_address_with_too_many_gives_way_itself() -> None:
    world = World()
    world.arrive(Client("10.0.0.9"), *(Client() for _ in range(4)))
    assert world.gone() == [1, 2], "and not the older one of another address"
    assert {kind for kind, *_ in world.told} == {YieldKind.UNPROVEN_FROM_ADDRESS}


def test_whoever_has_proved_who_it_is_does_not_give_way() -> None:
    world = World()
    clients = from_hosts(4)
    world.arrive(*clients)
    clients[0].is_unproven = clients[2].is_unproven = False
    world.arrive(Client("10.0.1.1"))
    assert world.gone() == []
    world.arrive(*(Client(f"10.0.1.{number}") for number in range(2, 5)))
    assert world.gone() == [1, 3]


def test_who_needs_no_proof_is_no_matter_of_these_bounds() -> None:
    world = World()
    world.arrive(*(Client(is_unproven=False) for _ in range(10)))
    assert (world.gone(), world.giving_way.sweep(100, MUCH)) == ([], {})


def test_the_bound_is_half_of_all_places_at_most_and_an_addresss_half_of_that() -> None:
    wide = replace(LIMITS, unproven_max=1_000, unproven_per_address_max=1_000)
    world = World(wide, most=8)
    world.arrive(*(Client() for _ in range(3)))
    assert world.gone() == [0]
    world.arrive(*from_hosts(4, OUT))
    assert len([one for one in world.open if not one.is_closed]) == 4


def test_a_handshake_that_has_waited_for_us_starts_anew() -> None:
    world = World()
    clients = from_hosts(4)
    world.arrive(*clients)
    world.giving_way.begun(clients[0])
    world.arrive(Client("10.0.1.1"))
    assert world.gone() == [1]


def test_its_time_does_not_start_anew() -> None:
    world = World(replace(LIMITS, unproven_seconds_max=10))
    client = Client()
    world.arrive(client, tick=5)
    world.giving_way.begun(client)
    assert world.giving_way.sweep(15, MUCH) == {KAFKA: 1}
    assert client.ended is None
    assert world.giving_way.sweep(16, MUCH) == {}
    assert client.ended is CloseKind.AUTHENTICATION


def test_who_has_proved_it_in_time_stays() -> None:
    world = World()
    client = Client()
    world.arrive(client)
    client.is_unproven = False
    world.giving_way.sweep(1_000, MUCH)
    assert client.ended is None


def test_a_full_node_ends_the_oldest_that_is_unproven_before_anything_else() -> None:
    world = World()
    world.arrive(Client(is_unproven=False), *from_hosts(2))
    assert world.giving_way.make_room(RefuseKind.TOO_MANY, KAFKA)
    assert world.gone() == [1]
    assert world.told == [(YieldKind.FULL, KAFKA, "10.0.0.0")]
    assert world.giving_way.make_room(RefuseKind.TOO_MANY, OPS)
    assert not world.giving_way.make_room(RefuseKind.TOO_MANY, KAFKA)
    assert world.gone() == [1, 2]


def test_a_full_listener_ends_one_of_its_own() -> None:
    world = World()
    world.arrive(Client(), Client("10.0.0.2", OUT))
    assert world.giving_way.make_room(RefuseKind.TOO_MANY_AT_LISTENER, OUT)
    assert world.told == [(YieldKind.LISTENER_FULL, OUT, "10.0.0.2")]
    assert not world.giving_way.make_room(RefuseKind.TOO_MANY_AT_LISTENER, OUT)


@pytest.mark.parametrize(
    "kind", [kind for kind in RefuseKind if not kind.startswith("too_many") or "address" in kind]
)
def test_nobody_gives_way_to_an_address_that_has_too_much(kind: RefuseKind) -> None:
    world = World()
    world.arrive(Client())
    assert not world.giving_way.make_room(kind, OPS)
    assert world.gone() == []


def test_for_the_protected_listener_the_one_idle_longest_elsewhere_is_closed() -> None:
    world = World()
    world.arrive(
        Client(is_unproven=False, last_tick=1, in_flight=1),
        Client(is_unproven=False, last_tick=3),
        Client(is_unproven=False, last_tick=2),
        Client(is_unproven=False, last_tick=0, listener_name=OPS),
    )
    assert not world.giving_way.make_room(RefuseKind.TOO_MANY, KAFKA)
    order = []
    for _ in range(3):
        assert world.giving_way.make_room(RefuseKind.TOO_MANY, OPS)
        order += [at for at in world.gone() if at not in order]
    assert order == [2, 1, 0]
    assert not world.giving_way.make_room(RefuseKind.TOO_MANY, OPS)


def test_a_flood_elsewhere_ends_nothing_of_the_protected_listener() -> None:
    world = World()
    world.arrive(Client(listener_name=OPS), *from_hosts(50))
    assert world.giving_way.make_room(RefuseKind.TOO_MANY, KAFKA)
    assert 0 not in world.gone()
    world.arrive(*(Client(listener_name=OPS) for _ in range(4)))
    assert world.gone()[0] == 0, "those there give way to one another"


def test_it_is_told_who_has_proved_who_it_is_once_each() -> None:
    world = World()
    clients = from_hosts(3)
    world.arrive(*clients)
    clients[1].is_unproven = False
    for tick in range(2):
        world.giving_way.sweep(tick, MUCH)
    assert world.proved == [clients[1]]


def test_who_has_gone_is_counted_no_more() -> None:
    world = World()
    clients = from_hosts(4)
    world.arrive(*clients)
    for client in clients:
        client.is_unproven = False
        world.giving_way.left(client)
    world.arrive(*(Client(f"10.0.1.{number}", OUT) for number in range(4)))
    assert (world.gone(), world.giving_way.sweep(1, MUCH)) == ([], {OUT: 4})


def test_a_slow_client_stays_beside_many_that_prove_it_in_the_same_second() -> None:
    """They were counted until the second was over, and the slow one was closed for them."""
    world = World(LIMITS, most=1_000)
    slow = Client()
    world.arrive(slow)
    for _ in range(100):
        quick = Client()
        world.arrive(quick)
        quick.is_unproven = False
    assert world.gone() == []


def test_those_at_the_protected_listener_who_prove_nothing_end_few_that_are_idle() -> None:
    """Whoever reached its port could end half of all clients without saying who it was."""
    world = World(replace(LIMITS, unproven_max=1_000), most=1_000)
    world.arrive(*(Client(is_unproven=False) for _ in range(100)))
    for _ in range(100):
        assert world.giving_way.make_room(RefuseKind.TOO_MANY, OPS)
        world.arrive(Client(listener_name=OPS))
    assert sum(world.open[at].listener_name == KAFKA for at in world.gone()) == PROTECTED_PLACES


def test_those_that_hold_more_than_their_part_go_those_with_most_first() -> None:
    world = World(NetLimits(protected_listener="OPS"))
    sizes = (10, 40, 0, 30, 20)
    clients = [Client(f"10.0.0.{at}", received_bytes=size) for at, size in enumerate(sizes)]
    operator = Client("10.0.0.9", OPS, received_bytes=60)
    known = Client("10.0.0.8", is_unproven=False, received_bytes=1_000)
    world.arrive(*clients, operator, known)
    assert world.giving_way.sweep(1, 100) == {KAFKA: 5, OPS: 1}
    assert world.giving_way.sweep(1, 60) == {KAFKA: 4, OPS: 1}, "each table by itself"
    assert [one.ended for one in clients] == [None, CloseKind.MEMORY, None, None, None]
    assert world.giving_way.sweep(1, 29) == {KAFKA: 2}
    assert clients[3].ended is clients[4].ended is operator.ended is CloseKind.MEMORY
    assert (clients[0].ended, clients[2].ended, known.ended) == (None, None, None)
