"""When a streams group gets its next target: after its delay, and whatever changes meanwhile."""

import pytest

from penstock.coordinator.unwritten import Unwritten
from penstock.groups.assigned.topics import COMPARE_MS
from penstock.groups.streams.records import Endpoint
from penstock.groups.streams.status import StatusCode
from tests.groups.streams.troupe import STATELESS, WORD_COUNT, Player, Troupe, settle
from tests.groups.world import HandClock, only

DELAY_MS = 500


def world() -> Troupe:
    troupe = Troupe(streams_initial_delay_ms=DELAY_MS)
    troupe.words()
    return troupe


def test_the_first_assignment_waits_for_more_members() -> None:
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT).beat(), Player(troupe, "two", WORD_COUNT).beat()
    assert (one.codes, one.epoch) == ([StatusCode.ASSIGNMENT_DELAYED], 1)
    troupe.pass_ms(DELAY_MS)
    one.beat(), two.beat()
    assert (len(one.tasks()), len(two.tasks()), one.epoch) == (3, 3, 3)


class RunningClock(HandClock):
    """A millisecond passes whenever somebody looks."""

    def monotonic_ms(self) -> int:
        self.now_ms += 1
        return self.now_ms


@pytest.mark.parametrize("before_ms", range(40))
def test_a_delay_that_ends_in_the_middle_of_a_batch_leaves_nobody_without_tasks(
    before_ms: int,
) -> None:
    troupe = world()
    one = Player(troupe, "one", WORD_COUNT).beat()
    clock = troupe.coordinator._context.clock = RunningClock()
    clock.now_ms = troupe.group().assign_at_ms - before_ms
    two = Player(troupe, "two", WORD_COUNT).beat()
    clock.now_ms += DELAY_MS
    settle(one, two)
    assert (len(one.tasks()), len(two.tasks())) == (3, 3)


def test_a_first_member_that_is_not_written_takes_nothing_from_those_before() -> None:
    """All leave and one comes, by one write that fails: the delay that it began is still on."""
    troupe = world()
    one, two = Player(troupe, "one", WORD_COUNT).beat(), Player(troupe, "two", WORD_COUNT).beat()
    troupe.pass_ms(DELAY_MS)
    settle(one, two)
    three = Player(troupe, "three", WORD_COUNT).beat()
    one.beat().beat(), three.beat()
    had = three.tasks()
    assert len(had) == 1, "the second one has not given up what it is to have"
    troupe.journal.is_prompt = False
    troupe.beat_as("one", one.epoch, owned=one.owned, endpoint=Endpoint("here", 80))
    asked = [troupe.beat_as(each.member_id, -1) for each in (one, two, three)]
    asked.append(troupe.enter("four", WORD_COUNT))
    troupe.journal.refuses = Unwritten.TOO_FEW_IN_STEP
    troupe.journal.confirm()
    assert all(only(answers).error for answers in asked)
    troupe.journal.refuses, troupe.journal.is_prompt = None, True
    Player(troupe, "five", WORD_COUNT).beat(), three.beat()
    assert three.tasks() == had


def test_a_topic_that_changes_while_it_is_looked_at_is_looked_at_again() -> None:
    troupe = Troupe()
    troupe.cluster.create("lines", 2)
    one = Player(troupe, "one", STATELESS).beat()
    troupe.cluster.when_found = lambda: troupe.cluster.create("lines", 4)
    two = Player(troupe, "two", STATELESS).beat()
    troupe.pass_ms(COMPARE_MS)
    settle(one, two)
    assert one.tasks() | two.tasks() == {("0", number) for number in range(4)}
