"""What cleaning has left of a partition is taken from one other member, which cleaned otherwise."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.log_world import DIRECTORY
from penstock.base.errors import PlatformError
from penstock.extents.layout import ENTRY, NOT_CLEANED, Entry
from penstock.inspection.verify_extents import second_level_findings
from penstock.record.batch import read_header
from penstock.storage.config import Retention
from penstock.storage.errors import BadBatches
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.second_level.cleaning import clean_end, rewritten_end
from penstock.storage.second_level.cleaning_plan import CleaningSettings, dirt_of
from penstock.storage.second_level.damage import RangeRepair
from penstock.storage.second_level.pieces import Marks, piece_bytes
from penstock.storage.second_level.range_rebuild import ExtentPiece
from penstock.storage.second_level.reading import ExtentPlace, open_extent
from tests.compaction.histories import APPENDS, MARKS, TRANSACTIONS, read_committed
from tests.storage.replicas import crashes
from tests.storage.second_level import IDENTITY, UNFINISHED, take_over
from tests.storage.test_cleaned_extents import (
    CLEANS,
    KEY,
    RETENTION_MS,
    SPLITS,
    Clean,
    Part,
    Reopen,
    Split,
    Step,
    keyed,
)

PIECE = 150
SPLIT, CLEAN = Split(with_other=False), Clean(0, 100, 1 << 20, 0)


def piece_of(other: Part, repair: RangeRepair, max_bytes: int = PIECE) -> ExtentPiece | None:
    """Return what another member gives next; None if it has no extent there."""
    offset, skip = repair.next
    pieces = other.second.damage.pieces
    extent = pieces.extent_at(KEY, offset)
    if extent is None:
        return None
    answers: list[Any] = []
    pieces.read(extent, skip, max_bytes, lambda piece, error: answers.append(error or piece))
    other.world.run()
    (data,) = answers
    assert isinstance(data, bytes), data
    entry = ENTRY.pack(*extent.entry)
    offsets = extent.first_offset, extent.end_offset
    return ExtentPiece(entry, *offsets, pieces.marks(KEY), data)


def begin(part: Part, end_offset: int = 0) -> RangeRepair:
    repair = part.second.damage.repair_range(KEY, end_offset, UNFINISHED, IDENTITY)
    assert repair is not None
    return repair


def go_on(part: Part, repair: RangeRepair, piece: ExtentPiece) -> bool:
    answers: list[Any] = []
    repair.take(piece, lambda more, error: answers.append(more if error is None else error))
    part.world.run()
    (answer,) = answers
    if isinstance(answer, PlatformError):
        raise answer
    assert isinstance(answer, bool)
    return answer


def write_anew(part: Part, other: Part, end_offset: int = 0) -> None:
    """Write a range anew; raises BadBatches."""
    repair = begin(part, end_offset)
    while True:
        piece = piece_of(other, repair)
        if piece is None:
            raise BadBatches("no extent there")
        if not go_on(part, repair, piece):
            return


def take(part: Part, other: Part, end_offset: int = 0) -> None:
    write_anew(part, other, end_offset)
    assert take_over(part.world, part.second) is None


def check(part: Part) -> None:
    assert part.values() == part.wanted()
    part.check_files()
    assert list(second_level_findings(part.disk, DIRECTORY)) == []


WHO = st.sampled_from([("here",), ("there",), ("here", "there")])
OWN = st.one_of(SPLITS, SPLITS, CLEANS, st.just(Reopen()))
BOTH = st.just(("here", "there"))
ONE = st.one_of(st.tuples(BOTH, APPENDS), st.tuples(BOTH, MARKS), st.tuples(WHO, OWN))
PARTS = st.one_of(
    ONE.map(lambda one: [one]),
    ONE.map(lambda one: [one]),
    TRANSACTIONS.map(lambda steps: [(("here", "there"), step) for step in steps]),
)
HISTORIES = st.lists(PARTS, min_size=5, max_size=30).map(
    lambda parts: [step for part in parts for step in part]
)
History = list[tuple[tuple[str, ...], Step]]


def lived(history: History) -> tuple[Part, Part]:
    """Two members with one log; each has split and cleaned what it has when it liked to."""
    members = {"here": Part(), "there": Part()}
    for who, step in history:
        for name in who:
            members[name].apply(step)
        now = max(part.now for part in members.values())
        for part in members.values():
            part.now = now
    here, there = members.values()
    assert here.log.batches == there.log.batches
    return here, there


def is_taken(here: Part, there: Part) -> bool:
    """Take all that is cleaned, and an extent at least; return whether it could be."""
    if not (here.end and there.end):
        return False
    extents = here.second.extents(KEY), there.second.extents(KEY)
    damaged = extents[0][0].end_offset
    end = max(damaged, *map(rewritten_end, extents))
    try:
        take(here, there, damaged)
    except BadBatches:
        assert end > min(here.end, there.end)
        return False
    return True


def two(*, here: int = 0, there: int = 0, count: int = 60) -> tuple[Part, Part]:
    """Two members with extents of so many records; each has cleaned those below an offset."""
    members = Part(), Part()
    for part, cleaned in zip(members, (here, there), strict=True):
        for end in range(20, count + 1, 20):
            keyed(part, 20, keys=7)
            part.apply(SPLIT)
            if end == cleaned:
                part.apply(CLEAN)
    return members


def spans(part: Part) -> list[tuple[int, int, bool]]:
    return [(one.first_offset, one.end_offset, one.is_cleaned) for one in part.second.extents(KEY)]


def test_all_below_both_ends_comes_from_the_other_member_and_what_is_above_stays() -> None:
    here, there = two(here=20, there=40)
    take(here, there)
    assert spans(here) == [(0, 40, True), (40, 60, False)]
    assert here.read() == there.read()
    check(here)


def test_what_the_other_member_has_not_cleaned_is_dirty_here_and_cleaned_by_the_next_pass() -> None:
    here, there = two(here=40, there=20)
    take(here, there)
    assert spans(here) == [(0, 20, True), (20, 40, False), (40, 60, False)]
    extents = here.second.extents(KEY)
    assert [one.entry.newest_horizon_ms == NOT_CLEANED for one in extents] == [False, True, False]
    assert clean_end(extents) == 20
    dirt = dirt_of(KEY, extents, CleaningSettings(0.5, 0, 0, 0, Retention(-1, -1)), 1 << 40)
    assert dirt.dirty_bytes == sum(one.batch_bytes for one in extents[1:])
    here.apply(Reopen())
    assert spans(here) == [(0, 20, True), (20, 40, False), (40, 60, False)]
    here.apply(CLEAN)
    assert spans(here) == [(0, 60, True)]
    assert len(here.read()) == 7
    check(here)


def test_a_damaged_extent_that_only_others_have_cleaned_is_covered() -> None:
    here, there = two(there=20)
    take(here, there, 40)
    assert spans(here) == [(0, 20, True), (20, 40, False), (40, 60, False)]
    check(here)


def test_it_is_not_said_up_to_where_an_extent_is_decided_of_which_a_part_was_taken() -> None:
    """What ends a transaction of this part may be in the other one, of which nothing is known."""
    here, there = Part(), Part()
    for part, ends in ((here, (20, 40)), (there, (40,))):
        for end in range(20, 41, 20):
            keyed(part, 20, keys=7)
            if end in ends:
                part.apply(SPLIT)
    take(here, there, 20)
    assert spans(here) == [(0, 20, False), (20, 40, False)]
    taken, own = here.second.decided(here.partition, 0, here.end)
    assert (taken.end_offset, taken.stable_end) == (20, UNKNOWN)
    assert (own.end_offset, own.stable_end) == (40, 40)
    check(here)


def test_an_epoch_that_begins_where_a_taken_part_ends_is_noted_behind_it_only() -> None:
    here, there = Part(), Part()
    for part, first in ((here, 20), (there, 40)):
        keyed(part, first, keys=7)
        part.apply(SPLIT)
        keyed(part, 60 - first, keys=7)
        part.apply(SPLIT)
    take(here, there, 20)
    assert spans(here) == [(0, 20, False), (20, 60, False)]
    noted: list[tuple[int, int]] = []
    for extent in here.second.extents(KEY):
        with open_extent(ExtentPlace(here.disk, DIRECTORY), extent) as opened:
            noted += opened.summary.notes.epochs
    assert noted == [(7 + start // 10, start) for start in range(0, 60, 10)]
    check(here)


def test_nothing_is_taken_of_who_has_cleaned_beyond_what_is_here() -> None:
    here, there = two(here=20, there=40)
    keyed(there, 20)
    there.apply(SPLIT)
    there.apply(CLEAN)
    with pytest.raises(BadBatches, match="cleaned up to 80, and extents end at 60 here"):
        write_anew(here, there)


def test_two_passes_of_the_other_member_are_not_mixed() -> None:
    """Its second pass may have dropped a marker that ends a transaction of the first one's rest."""
    here, there = two(here=40, there=40)
    repair = begin(here)
    piece = piece_of(there, repair)
    assert piece is not None
    assert go_on(here, repair, piece)
    there.apply(Clean(RETENTION_MS + 1, 100, 1 << 20, 0))
    piece = piece_of(there, repair)
    assert piece is not None
    with pytest.raises(BadBatches, match="again meanwhile"):
        go_on(here, repair, piece)


def fed(here: Part, there: Part, wanted: int, change: Callable[[ExtentPiece], ExtentPiece]) -> bool:
    """Feed pieces, one of them changed; return whether that was refused."""
    repair = begin(here)
    number, is_more = 0, True
    while is_more:
        piece = piece_of(there, repair)
        assert piece is not None
        try:
            is_more = go_on(here, repair, change(piece) if number == wanted else piece)
        except BadBatches:
            repair.abandon()
            here.world.run()
            return number >= wanted
        number += 1
    return False


def test_a_flipped_bit_in_any_piece_is_refused_and_nothing_changes() -> None:
    here, there = two(here=40, there=40)
    before = spans(here), here.read()
    total = sum(piece_bytes(one) for one in there.second.extents(KEY)[:1])
    pieces = -(-total // PIECE)
    assert pieces > 3
    for wanted in range(pieces):
        assert fed(here, there, wanted, lambda piece: piece._replace(data=flipped(piece.data)))
    assert (spans(here), here.read()) == before


def flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        lambda piece: piece._replace(entry=piece.entry[:-1]),
        lambda piece: piece._replace(data=b""),
        lambda piece: piece._replace(data=piece.data + b"x" * 5_000),
        lambda piece: piece._replace(first_offset=1),
        lambda piece: piece._replace(end_offset=piece.end_offset - 1),
        lambda piece: changed(piece, partition=9),
        lambda piece: changed(piece, block_count=0),
        lambda piece: changed(piece, end_offset=39),
    ],
)
def test_a_piece_that_contradicts_itself_is_refused(
    change: Callable[[ExtentPiece], ExtentPiece],
) -> None:
    here, there = two(here=40, there=40)
    assert fed(here, there, 0, change)
    assert spans(here) == [(0, 40, True), (40, 60, False)]


def changed(piece: ExtentPiece, **changes: int) -> ExtentPiece:
    entry = Entry(*ENTRY.unpack(piece.entry))._replace(**changes)  # type: ignore[arg-type]
    return piece._replace(entry=ENTRY.pack(*entry))


def test_an_extent_that_ends_before_it_says_is_refused() -> None:
    here, there = two(here=40, there=40)
    repair = begin(here)
    for _ in range(1_000):
        piece = piece_of(there, repair)
        assert piece is not None
        lying = changed(piece, end_offset=45)._replace(end_offset=45, marks=Marks(45, 0))
        try:
            assert go_on(here, repair, lying)
        except BadBatches as error:
            assert "ends at 40, not at 45" in str(error)  # noqa: PT017  the last piece of many
            return
    raise AssertionError("it never ended")


def test_a_pass_that_was_taken_over_meanwhile_wins() -> None:
    here, there = two(here=20, there=40)
    write_anew(here, there)
    here.disk.rename(UNFINISHED, f"{UNFINISHED}-late")
    here.apply(CLEAN)
    here.disk.rename(f"{UNFINISHED}-late", UNFINISHED)
    refusal = take_over(here.world, here.second)
    assert "were not made of what is held" in str(refusal)
    check(here)


def test_killed_at_any_step_it_has_what_it_had_or_all_of_the_other_member() -> None:
    state: dict[str, Any] = {}
    before, after = set(), set()

    def operation() -> None:
        here, there = two(here=20, there=40)
        state.update(disk=here.disk, wanted=here.wanted())
        before.add(tuple(here.read()))
        here.disk.on_operation = state["hook"]
        take(here, there)
        here.world.run()
        after.add(tuple(there.read()))

    found = set()
    for _ in crashes(operation, state):
        state["disk"].power_loss()
        here = Part()
        here.disk = state["disk"]
        here.apply(Reopen())
        assert here.values() == state["wanted"]
        found.add(tuple(here.read()))
        assert [name for name in here.files() if not name.endswith(".extents")] == []
    assert found == before | after
    assert len(found) == 2


@given(HISTORIES, HISTORIES)
@settings(max_examples=40)
def test_a_range_of_another_member_ends_in_the_same_values_and_so_does_all_that_follows(
    history: History, later: History
) -> None:
    here, there = lived(history)
    if not is_taken(here, there):
        return
    check(here)
    taken = rewritten_end(here.second.extents(KEY))
    found = [
        [batch for batch in part.read() if read_header(memoryview(batch)).base_offset < taken]
        for part in (here, there)
    ]
    assert found[0] == found[1]
    for epoch in range(5, 9 + here.log.end // 10):
        assert here.epoch_end(epoch) == here.epoch_end_of_the_log(epoch)
    for _, step in later:
        here.apply(step)
        if isinstance(step, Clean | Reopen):
            assert here.values() == here.wanted()
    here.apply(Reopen())
    check(here)


@given(HISTORIES)
@settings(max_examples=30)
def test_what_was_taken_is_cleaned_as_if_it_had_been_here(history: History) -> None:
    here, there = lived([*history, (("here", "there"), SPLIT)])
    if here.log.open or not is_taken(here, there):
        return
    keyed(here, 1)
    for _ in range(3):
        here.apply(SPLIT)
        here.apply(Clean(RETENTION_MS + 1, 1_000, 1 << 20, 0))
    check(here)
    keys = [record.key for record in read_committed(here.read(), here.aborted())]
    assert len(keys) == len(set(keys)), "a key is there twice"
