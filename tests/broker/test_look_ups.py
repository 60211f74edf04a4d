"""Look-ups of clients: a few at a time on the whole node, in turns, and none for who has gone."""

from collections.abc import Callable
from functools import partial

from harness.log_world import World
from penstock.broker.look_ups import AT_ONCE, OF_ADDRESS, STEPS, LookUps


class Client:
    """A connection from an address."""

    def __init__(self, host: str) -> None:
        self.client_host = host
        self.is_gone = self.is_aborted = False

    def has_gone(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_aborted = True


class Node:
    """The queue, with look-ups that end when the test says so."""

    def __init__(self) -> None:
        self.world = World()
        self.look_ups = LookUps(self.world, self.world)
        self.begun: list[str] = []
        self.dropped: list[str] = []
        self.open: list[Callable[[], None]] = []

    def ask(self, client: Client, *names: str, is_known: bool = False) -> None:
        for name in names:

            def begin(over: Callable[[], None], name: str = name) -> None:
                self.begun.append(name)
                if is_known:
                    over()
                else:
                    self.open.append(over)

            self.look_ups.ask(client, begin, partial(self.dropped.append, name))

    def end_one(self) -> None:
        self.open.pop(0)()
        self.world.turn()


def test_few_are_in_progress_and_of_one_address_not_all() -> None:
    node = Node()
    node.ask(Client("a"), "a1", "a2", "a3")
    node.ask(Client("a"), "a4")
    node.world.turn()
    assert len(node.begun) == OF_ADDRESS < AT_ONCE
    for name in "bcd":
        node.ask(Client(name), name)
    node.world.turn()
    assert node.look_ups.in_progress == len(node.begun) == AT_ONCE
    assert node.begun == ["a1", "b"]


def test_a_small_asker_waits_for_one_of_those_who_ask_much() -> None:
    node = Node()
    for number in range(20):
        node.ask(Client("many"), *[f"{number}-{one}" for one in range(50)])
    node.world.turn()
    node.ask(Client("few"), "few")
    node.world.turn()
    assert node.begun[-1] == "few"


def test_connections_of_one_address_take_turns() -> None:
    node = Node()
    node.ask(Client("a"), *[f"many-{one}" for one in range(50)])
    node.ask(Client("a"), "single")
    node.world.turn()
    node.end_one()
    assert node.begun == ["many-0", "single"]
    node.end_one()
    assert node.begun[-1] == "many-1"


def test_nothing_is_begun_for_a_client_that_has_gone() -> None:
    node = Node()
    gone, other = Client("a"), Client("a")
    node.ask(gone, "1", "2", "3")
    node.ask(other, "other")
    node.world.turn()
    gone.is_gone = True
    node.end_one()
    assert node.begun == ["1", "other"]
    node.end_one()
    assert node.dropped == ["2", "3"]
    assert gone.is_aborted
    assert (node.look_ups.waiting, node.look_ups.in_progress) == (0, 0)


def test_what_memory_can_answer_holds_a_turn_for_a_limited_number() -> None:
    node = Node()
    node.ask(Client("a"), *map(str, range(3 * STEPS)), is_known=True)
    counts = []
    while node.look_ups.waiting:
        (handle,) = node.world.soon
        node.world.soon.clear()
        assert handle.callback is not None
        handle.callback()
        counts.append(len(node.begun))
    assert counts == [STEPS, 2 * STEPS, 3 * STEPS]


def test_a_place_rests_for_as_long_as_it_was_at_work() -> None:
    node = Node()
    node.ask(Client("a"), "1", "2")
    node.world.turn()
    node.world.advance(30)
    node.end_one()
    node.world.advance(29)
    assert node.begun == ["1"]
    node.world.advance(1)
    assert node.begun == ["1", "2"]


def test_places_work_half_of_the_time_together() -> None:
    node = Node()
    node.ask(Client("a"), "a1", "a2")
    node.ask(Client("b"), "b1")
    node.world.turn()
    node.world.advance(10)
    node.end_one()
    node.world.advance(29)
    assert node.begun == ["a1", "b1"]
    node.world.advance(1)
    assert node.begun == ["a1", "b1", "a2"]
