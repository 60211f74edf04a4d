"""What a coordinator goes by that has loaded its ids; what it counts before a change is there."""

from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.records import encode_key
from penstock.transactions.state import Transaction, TransactionState
from penstock.transactions.table import IdTable
from tests.transactions.world import ONE, OTHER, World


def test_a_transaction_that_was_loaded_ends_as_long_after_it_began_as_before() -> None:
    """Partitions that came later have changed its record, and not when it began."""
    world = World().load()
    producer = world.init(timeout_ms=60_000).producer
    assert world.add(producer, ONE) is Code.NONE
    world.later(40_000)
    assert world.add(producer, OTHER) is Code.NONE
    other = world.elsewhere(8)
    other.later(19_999)
    assert other.state().state is TransactionState.ONGOING
    other.later(1)
    assert other.state().state is TransactionState.PREPARE_ABORT


def test_a_transaction_that_began_later_than_the_clock_says_has_its_time_and_no_more() -> None:
    """The clock of the next coordinator is behind: by it the transaction has not begun yet."""
    world = World().load()
    producer = world.init(timeout_ms=60_000).producer
    assert world.add(producer, ONE) is Code.NONE
    other = World(world.journal, ids=world.ids)
    other.clock.ahead_ms = -3_600_000
    other.load(world.journal.records())
    other.later(59_999)
    assert other.state().state is TransactionState.ONGOING
    other.later(1)
    assert other.state().state is TransactionState.PREPARE_ABORT


def test_a_value_of_a_later_release_is_over_with_the_tombstone_behind_it() -> None:
    of_later = (encode_key("x"), b"\x7f\xffof a later release")
    world = World().load([of_later])
    assert world.init().error is not Code.NONE
    assert world.coordinator.runtime.unread_bytes > 0
    world = World().load([of_later, (encode_key("x"), None)])
    assert world.init().error is Code.NONE
    assert world.coordinator.runtime.unread_bytes == 0
    assert all(record[1] != of_later[1] for record in _live(world))


def _live(world: World) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (record[0], record[1]) for some in world.coordinator.runtime.snapshot(0) for record in some
    ]


def test_places_of_a_transaction_are_free_when_its_end_is_confirmed_and_not_before() -> None:
    table = IdTable(0)
    world = World().load()
    producer = world.begun()
    assert world.add(producer, ONE, OTHER) is Code.NONE
    ongoing: Transaction = world.state()
    table.restore({"x": ongoing})
    assert table.place_count == 2
    ended = ongoing.prepared(is_commit=True, now_ms=1).completed(1)
    ticket = table.begin({"x": ended})
    assert table.place_count == 2
    table.refuse(ticket)
    assert table.place_count == 2
    table.confirm(table.begin({"x": ended}))
    assert table.place_count == 0
