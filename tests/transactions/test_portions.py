"""What comes due at once is done in portions, and bounds count what is under way."""

from collections import deque
from collections.abc import Callable

from penstock.protocol.error_codes import ErrorCode
from penstock.transactions.messages import Producer
from penstock.transactions.shard import PLACES_TOGETHER
from penstock.transactions.state import TopicPartitionName, TransactionState
from penstock.transactions.table import bytes_of
from tests.transactions.world import World

ABORTED = TransactionState.PREPARE_ABORT
MANY, PLACES = 60, 500
BATCHES_MAX = 25
"""Records of little transactions in one turn, each some 100 us."""


class Loop:
    """Turns of a loop in the test's hand."""

    def __init__(self) -> None:
        self.callbacks: deque[Callable[[], None]] = deque()

    def turn(self) -> None:
        for _ in range(len(self.callbacks)):
            self.callbacks.popleft()()


class TurningWorld(World):
    """A world whose coordinator goes on in later turns."""

    def __init__(self) -> None:
        self.loop = Loop()
        super().__init__(later=self.loop.callbacks.append)
        self.load()
        self.settle()

    def settle(self) -> None:
        super().settle()
        while self.loop.callbacks:
            self.loop.turn()
            super().settle()

    def written_by_turns(self) -> list[int]:
        """Return how many batches each turn appends, until nothing is left to do."""
        counts = []
        before = len(self.journal.batches)
        while self.loop.callbacks:
            self.loop.turn()
            counts.append(len(self.journal.batches) - before)
            before = len(self.journal.batches)
        return counts


def places(count: int) -> list[TopicPartitionName]:
    return [("t", number) for number in range(count)]


def opened(world: World, count: int, each: int) -> list[Producer]:
    producers = [world.begun(f"x{number}") for number in range(count)]
    for number, producer in enumerate(producers):
        assert world.add(producer, *places(each), name=f"x{number}") is ErrorCode.NONE
    return producers


def test_transactions_open_for_too_long_at_once_are_aborted_in_turns() -> None:
    for each, most in ((1, BATCHES_MAX), (PLACES, 4)):
        world = TurningWorld()
        opened(world, MANY, each)
        before = len(world.journal.batches)
        world.is_prompt = False
        world.clock.now_ms += 60_000
        world.coordinator.runtime.tick(world.clock.now_ms)
        first = len(world.journal.batches) - before
        counts = [first, *world.written_by_turns()]
        assert sum(counts) == MANY
        assert max(counts) <= most
        world.is_prompt = True
        world.settle()
        assert {world.state(f"x{number}").state for number in range(MANY)} == {ABORTED}


def test_transaction_begun_while_its_predecessor_s_time_out_waits_stays_open() -> None:
    world = TurningWorld()
    producers = opened(world, MANY, PLACES)
    world.clock.now_ms += 60_000
    world.coordinator.runtime.tick(world.clock.now_ms)
    name = f"x{MANY - 1}"
    assert world.state(name).state is TransactionState.ONGOING
    ended: list[ErrorCode] = []
    world.coordinator.end(
        name, producers[-1], 1, lambda told: ended.append(told.error), is_commit=True
    )
    world.journal.confirm()
    while not (duties := [one for one in world.markers.duties if one.is_commit]):
        world.loop.turn()
    (duty,) = duties
    world.coordinator.markers_written(duty, duty.partitions)
    while world.state(name).state is not TransactionState.COMPLETE_COMMIT:
        world.loop.turn()
        world.journal.confirm()
    begun: list[ErrorCode] = []
    world.coordinator.add_partitions(
        name, producers[-1], places(1), 1, lambda told: begun.append(told.error)
    )
    world.settle()
    assert ended == begun == [ErrorCode.NONE]
    assert world.state(name).state is TransactionState.ONGOING


def test_transactions_that_hear_of_their_last_marker_at_once_are_completed_in_turns() -> None:
    world = TurningWorld()
    for number, producer in enumerate(opened(world, MANY, 1)):
        world.end(producer, commits=True, name=f"x{number}")
    before = len(world.journal.batches)
    world.is_prompt = False
    for duty in world.markers.duties:
        world.coordinator.markers_written(duty, duty.partitions)
    counts = [len(world.journal.batches) - before, *world.written_by_turns()]
    assert sum(counts) == MANY
    assert max(counts) <= BATCHES_MAX


def test_partitions_under_way_count_for_the_bound_of_all() -> None:
    world = World(partitions_together_max=10).load()
    one, other = world.begun("x"), world.begun("y")
    world.is_prompt = False
    told: list[ErrorCode] = []
    for name, producer in (("x", one), ("y", other)):
        world.coordinator.add_partitions(
            name, producer, places(6), 1, lambda reply: told.append(reply.error)
        )
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.is_prompt = True
    world.settle()
    assert told[1:] == [ErrorCode.NONE]
    assert world.add(one, *places(10), name="x") is ErrorCode.NONE


def test_partitions_that_were_not_written_are_given_back() -> None:
    world = World(partitions_together_max=10).load()
    producer = world.begun()
    world.is_prompt = False
    told: list[ErrorCode] = []
    world.coordinator.add_partitions(
        "x", producer, places(10), 1, lambda reply: told.append(reply.error)
    )
    world.journal.lose(0)
    world.is_prompt = True
    world = world.elsewhere(8)
    assert world.add(producer, *places(10)) is ErrorCode.NONE


def test_ids_under_way_count_for_their_bound() -> None:
    world = World(ids_max=2).load()
    world.is_prompt = False
    told: list[ErrorCode] = []
    for name in ("x", "y", "z"):
        world.coordinator.init_producer_id(
            name, 60_000, None, lambda reply: told.append(reply.error)
        )
    assert told == [ErrorCode.POLICY_VIOLATION]
    world.is_prompt = True
    world.settle()
    assert told[1:] == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.init("z").error is ErrorCode.POLICY_VIOLATION


def test_a_rewrite_writes_few_partitions_in_a_step() -> None:
    world = World().load()
    opened(world, MANY, PLACES)
    lists = [*world.coordinator.runtime.snapshot(0)]
    written = [len(records) * PLACES for records in lists]
    assert sum(written) == MANY * PLACES
    assert max(written) <= PLACES_TOGETHER


def test_ids_have_a_bound_of_memory_that_those_under_way_count_for() -> None:
    world = World(ids_bytes_max=3 * bytes_of("\U0001f600" * 200)).load()
    world.is_prompt = False
    told: list[ErrorCode] = []
    for number in range(5):
        world.coordinator.init_producer_id(
            f"{number}" + "\U0001f600" * 199, 60_000, None, lambda reply: told.append(reply.error)
        )
    assert told == [ErrorCode.POLICY_VIOLATION] * 2
    world.is_prompt = True
    world.settle()
    assert told[2:] == [ErrorCode.NONE] * 3
    assert world.coordinator.pinned_bytes == world.coordinator.config.ids_bytes_max
    world.clock.now_ms += world.coordinator.config.id_expiration_ms + 1
    world.later(world.coordinator.config.expiry_check_interval_ms)
    assert world.coordinator.pinned_bytes == 0
    assert world.init("new").error is ErrorCode.NONE
