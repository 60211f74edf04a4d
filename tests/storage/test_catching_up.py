"""When a slave's log goes by what the master claims, and what then lies on its disk."""

import errno
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import Position
from penstock.base.ports import Lane
from penstock.frames.claim import EVERYWHERE
from penstock.storage.commit_log.catching_up import CALM_RUNS, CatchingUp, note_path, read_note
from tests.storage.faulty_disk import FaultyDisk

STEPS = st.lists(
    st.one_of(
        st.sampled_from(["begin", "flush", "work", "work", "lead", "calm"]),
        st.sampled_from([0, 1, 2, 5]),
        st.sampled_from(["replace", "remove", "sync_directory"]).map(lambda one: (one,)),
    ),
    max_size=60,
)


class Following:
    """A log that only counts: runs of 100 bytes are taken, and flushed when the test says."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.disk.make_directory("d")
        self.under_way: deque[tuple[Callable[[], Any], Callable[..., None]]] = deque()
        self.end, self.flushed = Position(0), Position(0)
        self.trusted: list[Position] = []
        """Where runs begin that were taken for what the master claims."""
        self.leads = False
        self.catching_up = CatchingUp(self.disk, "d", self, self.on_changed)

    def submit(
        self, work: Callable[[], Any], done: Callable[..., None], lane: Lane = Lane.WORK
    ) -> None:
        self.under_way.append((work, done))

    def on_changed(self) -> None:
        self.catching_up.flushed(self.flushed)

    def work(self) -> None:
        if not self.under_way:
            return
        work, done = self.under_way.popleft()
        try:
            result = work()
        except OSError as error:
            done(None, error)
        else:
            done(result, None)

    def take(self, syncs: int) -> None:
        if not self.catching_up.trusts_claims:
            self.trusted.append(self.end)
        self.end = Position(self.end + 100)
        self.catching_up.took(syncs, self.end)

    def flush(self) -> None:
        self.flushed = self.end
        self.catching_up.flushed(self.flushed)

    def begin(self) -> None:
        self.leads = False
        self.catching_up.begin(self.end)

    def lead(self) -> None:
        self.leads = True
        self.catching_up.end()
        self.on_changed()

    def settle(self) -> None:
        self.disk.heal()
        self.flush()
        while self.under_way:
            self.work()

    @property
    def noted(self) -> Position:
        return read_note(self.disk, "d", pytest.fail)

    def do(self, step: Any) -> None:
        if isinstance(step, tuple):
            self.disk.fail(step[0], "d", errno.EIO)
        elif isinstance(step, int):
            self.take(step)
        elif step == "calm":
            for _ in range(CALM_RUNS):
                self.take(1)
        else:
            getattr(self, step)()


@given(STEPS)
def test_what_is_taken_on_trust_is_noted_until_it_is_flushed_and_no_longer(steps) -> None:
    log = Following()
    for step in steps:
        log.do(step)
        unsure = [position for position in log.trusted if position >= log.flushed]
        assert not unsure or log.noted <= unsure[0]
        assert log.catching_up.trusts_claims or not log.leads
    log.lead()
    log.settle()
    log.disk.power_loss()
    assert log.noted == EVERYWHERE


def catching_up() -> Following:
    log = Following()
    log.begin()
    assert log.catching_up.trusts_claims, "the note is not there yet"
    log.work()
    assert not log.catching_up.trusts_claims
    assert log.noted == 0
    return log


def test_a_note_that_comes_when_the_log_leads_already_goes_again() -> None:
    log = Following()
    log.begin()
    log.lead()
    log.work()
    assert log.catching_up.trusts_claims
    log.settle()
    assert log.noted == EVERYWHERE


def test_so_many_calm_runs_in_a_row_end_it() -> None:
    log = catching_up()
    for _ in range(CALM_RUNS - 1):
        log.take(1)
    log.take(2)
    for _ in range(CALM_RUNS - 1):
        log.take(0)
    assert not log.catching_up.trusts_claims
    log.take(1)
    assert log.catching_up.trusts_claims


def test_a_new_beginning_counts_calm_runs_anew() -> None:
    log = catching_up()
    for _ in range(CALM_RUNS - 1):
        log.take(1)
    log.begin()
    log.take(1)
    assert not log.catching_up.trusts_claims


def test_what_begins_while_its_note_is_there_still_is_on_trust_at_once() -> None:
    log = catching_up()
    log.do("calm")
    assert log.catching_up.trusts_claims
    log.begin()
    assert not log.catching_up.trusts_claims
    log.take(5)
    log.catching_up.flushed(Position(log.end - 1))
    assert not log.under_way


def test_a_note_goes_when_the_last_byte_under_it_is_flushed() -> None:
    log = catching_up()
    log.do("calm")
    log.catching_up.flushed(Position(log.end - 1))
    assert not log.under_way
    log.flush()
    log.work()
    assert log.noted == EVERYWHERE
    assert note_path("d") not in log.disk.names


def test_a_note_that_could_not_be_written_leaves_the_log_as_it_was() -> None:
    log = Following()
    log.disk.fail("replace", "d", errno.EIO)
    log.begin()
    log.work()
    assert log.catching_up.trusts_claims
    assert log.noted == EVERYWHERE
    log.begin()
    log.work()
    assert not log.catching_up.trusts_claims
