"""Alignment against a dumb twin: logs are strings of labelled bytes, compared byte by byte."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, Position
from penstock.replication.alignment import (
    Alignment,
    Continue,
    Install,
    LogShape,
    StartAnew,
    Stop,
    Truncate,
    align,
)
from penstock.replication.epochs import EpochStart


def shape(*epochs: tuple[int, int], start: int = 0, end: int, confirmed: int = 0) -> LogShape:
    entries = tuple(EpochStart(LeaderEpoch(epoch), Position(at)) for epoch, at in epochs)
    return LogShape(entries, Position(start), Position(end), Position(confirmed))


EMPTY = shape(end=0)
MASTER = shape((3, 0), (4, 900), (6, 1400), end=2000)


def test_an_empty_slave_begins_at_the_masters_beginning() -> None:
    assert align(EMPTY, MASTER) == Continue(Position(0))


def test_an_empty_slave_installs_where_the_master_starts_later() -> None:
    assert isinstance(align(EMPTY, shape((4, 900), start=950, end=2000)), Install)


def test_an_empty_slave_installs_when_it_wants_the_newest_segment_only() -> None:
    assert isinstance(align(EMPTY, MASTER, wants_newest_only=True), Install)


def test_the_newest_segment_of_an_empty_master_is_copied_too() -> None:
    both = shape(start=950, end=950)
    install = align(both, both, wants_newest_only=True)
    assert install == Install("the own log is empty")


def test_an_empty_slave_goes_on_where_the_segment_that_it_copied_begins() -> None:
    """The master's newest segment was empty when it was copied."""
    copied = shape((3, 0), (4, 900), start=950, end=950)
    master = shape((3, 0), (4, 900), start=0, end=2000)
    assert align(copied, master) == Continue(Position(950))
    assert isinstance(align(copied, master, wants_newest_only=True), Install)


def test_an_empty_slave_of_another_history_does_not_go_on_where_it_begins() -> None:
    other = shape((3, 0), (5, 900), start=950, end=950)
    assert isinstance(align(other, MASTER), Install)
    behind = shape((3, 0), start=950, end=950)
    assert isinstance(align(behind, MASTER), Install), "epoch 4 began below where it would go on"


def test_an_empty_slave_that_begins_below_the_master_installs() -> None:
    copied = shape((3, 0), (4, 900), start=950, end=950)
    assert isinstance(align(copied, shape((4, 900), start=1000, end=2000)), Install)


def test_a_slave_wholly_below_the_master_installs() -> None:
    master = shape((4, 900), (6, 1400), start=1200, end=2000)
    assert isinstance(align(shape((3, 0), end=800), master), Install)
    assert isinstance(align(shape((3, 0), (4, 900), end=1000, confirmed=1000), master), Install)


def test_a_slave_that_ends_where_the_master_begins_installs_or_goes_on() -> None:
    """Retention has deleted what the slave has. It goes on where both know who wrote its end."""
    master = shape((6, 1400), start=1400, end=2000)  # epoch 5 is forgotten
    slave = shape((3, 0), (5, 900), end=1400, confirmed=1400)
    assert isinstance(align(slave, master), Install)
    assert isinstance(align(slave, master, may_cut_confirmed=True), Install)
    within = shape((5, 900), (6, 1600), start=1400, end=2000)
    assert align(slave, within) == Continue(Position(1400))
    other = shape((4, 800), (6, 1600), start=1400, end=2000)  # its epoch 4 was where 5 is
    assert isinstance(align(slave, other), Stop)
    assert isinstance(align(slave._replace(confirm_position=Position(800)), other), Install)


def test_an_old_masters_tail_may_go_further_than_where_retention_has_come_to() -> None:
    """Nobody has confirmed it, and all that was confirmed lay below."""
    master = shape((6, 1400), start=1420, end=2000)
    assert isinstance(align(shape((5, 900), end=1500, confirmed=1400), master), Install)
    assert isinstance(align(shape((5, 900), end=1500, confirmed=1401), master), Stop)
    assert isinstance(align(shape((5, 900), end=1410, confirmed=1401), master), Stop)


def test_a_slave_that_overlaps_from_below_goes_on_at_its_end() -> None:
    master = shape((4, 900), (6, 1400), start=950, end=2000)
    slave = shape((3, 0), (4, 900), end=1100, confirmed=1000)
    assert align(slave, master) == Continue(Position(1100))


def test_a_slave_inside_goes_on_or_is_cut() -> None:
    assert align(shape((4, 900), start=950, end=1300), MASTER) == Continue(Position(1300))
    inside = shape((4, 900), (5, 1300), start=950, end=1700, confirmed=1300)
    assert align(inside, MASTER) == Truncate(Position(1300), LeaderEpoch(4))


def test_a_slave_ahead_at_the_top_is_cut_to_where_the_masters_epoch_ended() -> None:
    # KIP-101: by epochs and not by anybody's high watermark.
    assert align(shape((3, 0), (4, 900), end=1600), MASTER) == Truncate(
        Position(1400), LeaderEpoch(4)
    )


def test_a_slave_that_starts_below_and_ends_above_is_cut() -> None:
    master = shape((4, 900), start=1000, end=1200)
    slave = shape((3, 0), (4, 900), end=1500, confirmed=1100)
    assert align(slave, master) == Truncate(Position(1200), LeaderEpoch(4))


def test_a_slave_wholly_above_the_master_stops_for_an_operator() -> None:
    slave = shape((7, 3000), start=3000, end=3500, confirmed=3200)
    assert isinstance(align(slave, MASTER), Stop)
    assert isinstance(align(slave, MASTER, may_cut_confirmed=True), StartAnew)


def test_a_cut_below_what_is_confirmed_stops_unless_an_unclean_election_was_allowed() -> None:
    slave = shape((3, 0), (4, 900), end=1600, confirmed=1500)
    assert isinstance(align(slave, MASTER), Stop)
    assert align(slave, MASTER, may_cut_confirmed=True) == Truncate(Position(1400), LeaderEpoch(4))


def test_an_unconfirmed_first_mastership_that_lost_is_thrown_away() -> None:
    assert isinstance(align(shape((0, 0), end=60), shape((1, 0), end=60)), StartAnew)


def test_an_epoch_that_the_master_never_saw_is_cut_at_the_largest_one_below() -> None:
    # KIP-279: A (epoch 3) to B (epoch 4) and back to A (epoch 5), each with an own tail.
    b = shape((3, 0), (4, 500), end=900, confirmed=500)
    a = shape((3, 0), (5, 700), end=1000)
    assert align(b, a) == Truncate(Position(500), LeaderEpoch(3))


def test_masterships_without_writes_are_told_apart_by_their_starts() -> None:
    # KAFKA-10706, RocketMQ #9942: the same epochs, but another start, prove nothing.
    master = shape((3, 0), (4, 500), (5, 560), (6, 620), end=700)
    assert align(shape((3, 0), (4, 500), (5, 560), end=620), master) == Continue(Position(620))
    other = shape((3, 0), (5, 530), end=900)
    assert align(other, master) == Truncate(Position(500), LeaderEpoch(3))


def test_positions_beyond_32_and_63_bits_are_compared_in_full() -> None:
    far = 1 << 40
    master = shape((3, far), start=far, end=far + 100)
    assert align(shape((3, far), start=far, end=far + 200), master) == Truncate(
        Position(far + 100), LeaderEpoch(3)
    )


@dataclass
class Dumb:
    """A log as a list of (epoch, number) cells; one cell is one byte of position."""

    cells: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0

    def lead(self, epoch: int, count: int) -> None:
        """A mastership: its start frame, and `count` cells that nobody else can have written."""
        self.cells += [(epoch, at) for at in range(len(self.cells), len(self.cells) + count + 1)]

    def follow(self, master: "Dumb", upto: int) -> None:
        """Become a prefix of the master's log the slow way: byte by byte."""
        del self.cells[self.common(master) :]
        self.cells += master.cells[len(self.cells) : max(upto, len(self.cells))]

    def common(self, other: "Dumb") -> int:
        pairs = zip(self.cells, other.cells, strict=False)
        return next(
            (at for at, (a, b) in enumerate(pairs) if a != b),
            min(len(self.cells), len(other.cells)),
        )

    def shape(self, confirmed: int = 0) -> LogShape:
        epochs: list[tuple[int, int]] = []
        for at, (epoch, _) in enumerate(self.cells):
            if not epochs or epochs[-1][0] != epoch:
                epochs.append((epoch, at))
        first = 0
        for at, (_, start) in enumerate(epochs):
            if start <= self.start:
                first = at
        return shape(*epochs[first:], start=self.start, end=len(self.cells), confirmed=confirmed)


def applied(slave: Dumb, master: Dumb, outcome: Alignment) -> None:
    """Carry an outcome out."""
    match outcome:
        case Continue(position):
            assert position == len(slave.cells)
        case Truncate(position, _):
            assert slave.start < position < len(slave.cells)
            del slave.cells[position:]
        case StartAnew():
            slave.cells, slave.start = [], 0
        case Install():
            slave.cells, slave.start = list(master.cells), master.start
        case Stop():
            raise AssertionError(outcome)


steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # who is master
        st.integers(0, 3),  # cells it writes
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12)),  # who gets how many
    ),
    max_size=12,
)


@given(steps, st.integers(0, 2), st.integers(0, 2), st.integers(0, 20))
def test_after_any_history_of_masterships_an_aligned_log_is_a_prefix_of_the_masters(
    history: list[tuple[int, int, tuple[int, int, int]]], slave_at: int, master_at: int, cut: int
) -> None:
    logs = [Dumb(), Dumb(), Dumb()]
    for epoch, (leader, count, received) in enumerate(history):
        logs[leader].lead(epoch, count)
        for at, more in enumerate(received):
            if at != leader and more:
                logs[at].follow(logs[leader], logs[at].common(logs[leader]) + more)
    slave, master = logs[slave_at], logs[master_at]
    master.start = min(cut, len(master.cells))
    equal = slave.common(master)
    outcome = align(slave.shape(), master.shape())
    applied(slave, master, outcome)
    assert slave.cells == master.cells[: len(slave.cells)]
    if isinstance(outcome, Continue | Truncate):
        assert len(slave.cells) == equal, "nothing that was equal may be cut"


@given(steps, st.integers(0, 2), st.integers(0, 2), st.integers(0, 40))
def test_a_cut_never_goes_below_what_the_slave_knows_to_be_confirmed(
    history: list[tuple[int, int, tuple[int, int, int]]], slave_at: int, master_at: int, known: int
) -> None:
    logs = [Dumb(), Dumb(), Dumb()]
    for epoch, (leader, count, received) in enumerate(history):
        logs[leader].lead(epoch, count)
        for at, more in enumerate(received):
            if at != leader and more:
                logs[at].follow(logs[leader], logs[at].common(logs[leader]) + more)
    slave, master = logs[slave_at], logs[master_at]
    confirmed = min(known, len(slave.cells))
    outcome = align(slave.shape(confirmed), master.shape())
    if slave.common(master) < confirmed:
        assert isinstance(outcome, Stop)
    else:
        assert not isinstance(outcome, Stop)


def test_a_log_that_agrees_up_to_where_it_starts_keeps_nothing() -> None:
    """Cut there it would go on with partitions that it knows from what lies below its start."""
    slave = shape((1, 0), (2, 500), start=500, end=700)
    assert isinstance(align(slave, shape((1, 0), (3, 500), end=900)), StartAnew)
    assert isinstance(align(slave, shape((1, 0), (3, 500), start=400, end=900)), Install)
