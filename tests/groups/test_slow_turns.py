"""What members of a classic group do while silent ones are removed, some in a turn."""

from penstock.coordinator.portions import PORTION
from penstock.protocol.error_codes import ErrorCode
from tests.groups.world import REBALANCE_MS, World, only

OK = ErrorCode.NONE
OTHER = (("range", b"other"),)


LONG_MS = 2 * REBALANCE_MS


def begun(*late: str) -> tuple[World, str, list[str]]:
    """One member of a group has joined again, and others have not, and are to be removed.

    The turn is used up, so that they are not removed yet.
    """
    world = World(has_turns=True, initial_rebalance_delay_ms=REBALANCE_MS // 2)
    world.all_turns()
    joining = [world.join(client=name, session_ms=LONG_MS) for name in ("first", *late)]
    world.pass_ms(REBALANCE_MS)
    world.all_turns()
    first_id, *late_ids = [only(answers).member_id for answers in joining]
    world.sync(first_id, 1, {})
    for late_id in late_ids:
        world.sync(late_id, 1)
    world.all_turns()
    assert world.state() == "Stable"
    world.join(first_id, protocols=OTHER, session_ms=LONG_MS)
    world.all_turns()
    world.coordinator._context.portions.begin(iter([PORTION]))
    world.pass_ms(REBALANCE_MS)
    assert world.classic().members.keys() == {first_id, *late_ids}
    return world, first_id, late_ids


def test_who_joins_as_it_is_to_be_removed_stays_and_who_does_not_goes() -> None:
    world, first_id, (late_id, _) = begun("late", "silent")
    joining = world.join(late_id, session_ms=LONG_MS)
    world.all_turns()
    assert only(joining).error is OK
    assert world.classic().members.keys() == {first_id, late_id}


def test_who_was_late_for_a_generation_is_waited_for_in_the_next_one() -> None:
    world, first_id, (late_id,) = begun("late")
    joining = world.join(late_id, session_ms=LONG_MS)
    world.join(first_id, session_ms=LONG_MS)  # other metadata: all are to join again
    assert world.state() == "PreparingRebalance"
    world.all_turns()
    told = only(joining)
    assert (told.error, told.generation, world.classic().generation) == (OK, 2, 2)
    assert late_id in world.classic().members
