"""Objects for the tier, made of what a second level holds."""

import pytest

from harness.log_world import DIRECTORY, SMALL, World, make_batch, open_log
from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from penstock.extents import writer
from penstock.extents.check import check_extent_file
from penstock.extents.layout import Entry
from penstock.extents.reader import batches_of, read_block, read_summary
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.errors import ExtentDamaged, ReadFailed
from penstock.storage.index.aborted import UNKNOWN
from penstock.storage.index.transactions import TransactionEnd
from penstock.storage.second_level.manifest import extent_path
from penstock.storage.second_level.objects import build_object, plan_objects, waiting
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.store import SecondLevel
from penstock.tier.copies.effects import Part, Plan
from penstock.tier.copies.source import Image
from tests.extents.files import reading
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.second_level import IDENTITY, closed_segments, opened, split, take_over
from tests.storage.test_second_level import Level
from tests.storage.test_stores import KEY, OTHER

EVERYTHING = 1 << 40


class Copied:
    """A level, and objects that are made of it one after the other."""

    def __init__(self, disk: FaultyDisk, second: SecondLevel) -> None:
        self.place = ExtentPlace(disk, DIRECTORY)
        self.second = second
        self.ends: dict[TopicPartition, int] = {}

    def waiting(self, stable_end: int = EVERYTHING) -> dict[TopicPartition, list[object]]:
        return {
            key: waiting(self.second.extents(key), self.ends.get(key, 0), stable_end)  # type: ignore[misc]
            for key in self.second.held_partitions()
        }

    def plans(self, object_bytes: int = EVERYTHING, count: int = 1000) -> list[Plan]:
        return plan_objects(self.place, self.waiting(), self.ends, count, object_bytes)  # type: ignore[arg-type]

    def build(self, plan: Plan) -> Image:
        return build_object(self.place, self.waiting(), plan, IDENTITY)  # type: ignore[arg-type]

    def copy(self, object_bytes: int, count: int) -> list[Image]:
        """Plan some objects, make them, and let the tier end behind them."""
        images = [self.build(plan) for plan in self.plans(object_bytes, count)]
        for image in images:
            for entry in image.entries:
                self.ends[entry.topic_partition] = entry.end_offset
        return images


def bytes_of(image: Image) -> bytes:
    return b"".join(image.file)


def batches_in(image: Image, key: TopicPartition) -> list[bytes]:
    """Return the batches of a partition in an object, all of it checked."""
    data = bytes_of(image)
    directory = check_extent_file("a", len(data), reading(data))
    assert tuple(directory.entries) == image.entries
    found = []
    for entry in directory.entries:
        blocks = read_summary("a", entry, reading(data)).blocks
        for block in range(entry.block_count) if entry.topic_partition == key else ():
            part = read_block("a", blocks, block, reading(data))
            found += [bytes(batch) for _, batch in batches_of("a", blocks.places[block], part)]
    return found


def _without_notes(entry: Entry) -> Entry:
    """Return an entry but for what stands in the notes: what is decided behind it may be known."""
    return entry._replace(summary_crc=0)


def levels(monkeypatch: pytest.MonkeyPatch | None = None) -> tuple[Copied, Level]:
    if monkeypatch is not None:
        monkeypatch.setattr(writer, "BLOCK_BYTES", 4_000)
    disk = FaultyDisk()
    level = Level(disk)
    level.take_all()
    return Copied(disk, level.second), level


def wanted_of(level: Level) -> list[bytes]:
    return [one.body for one in level.filling.batches if one.end <= level.held.end_offset]


@pytest.mark.parametrize("object_bytes", [1, 5_000, 20_000, EVERYTHING])
@pytest.mark.parametrize("count", [1, 3])
def test_objects_that_follow_each_other_have_the_log_byte_for_byte(
    object_bytes: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied, level = levels(monkeypatch)
    images = []
    while more := copied.copy(object_bytes, count):
        assert len(more) <= count
        images += more
    assert copied.ends == {KEY: level.held.end_offset, OTHER: copied.ends[OTHER]}
    found = [one for image in images for one in batches_in(image, KEY)]
    assert [one[16:] for one in found] == wanted_of(level)
    for image in images:
        parts = {entry.topic_partition for entry in image.entries}
        assert len(parts) == len(image.entries)
        is_one_piece = len(image.entries) == 1 and image.entries[0].block_count == 1
        assert is_one_piece or sum(one.batch_bytes for one in image.entries) <= object_bytes


def test_what_is_made_has_the_offsets_that_were_planned_and_the_epochs_of_its_batches() -> None:
    copied, _ = levels()
    for plan in copied.plans(20_000):
        image = copied.build(plan)
        told = [(one.topic_partition, one.first_offset, one.end_offset) for one in image.entries]
        assert told == list(plan)
        data = bytes_of(image)
        for entry, epochs in zip(image.entries, image.epochs, strict=True):
            assert read_summary("a", entry, reading(data)).notes.epochs == list(epochs)


def test_members_that_sort_their_logs_at_other_times_make_objects_of_equal_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One has a file for each segment, the other one for all; a plan begins within its extents."""
    copied, level = levels(monkeypatch)
    disk = FaultyDisk()
    other = Level(disk)
    assert split(disk, other.second, other.segments, (KEY, OTHER))
    assert take_over(other.world, other.second) is None
    there = Copied(disk, other.second)
    assert len(other.second.extents(KEY)) == 1
    plans = copied.plans(20_000)
    assert len(plans) > 3
    for plan in plans:
        one, another = copied.build(plan), there.build(plan)
        assert batches_in(one, KEY) == batches_in(another, KEY)
        assert [_without_notes(entry) for entry in one.entries] == [
            _without_notes(entry) for entry in another.entries
        ]
    assert len(level.second.extents(KEY)) > 2


def test_what_is_not_decided_yet_waits_and_so_does_all_behind_it() -> None:
    copied, level = levels()
    first, second, *_ = level.second.extents(KEY)
    assert waiting(level.second.extents(KEY), 0, second.end_offset - 1) == [first]
    assert waiting(level.second.extents(KEY), 0, second.end_offset) == [first, second]
    assert waiting(level.second.extents(KEY), first.end_offset, second.end_offset) == [second]
    assert copied.waiting(0) == {KEY: [], OTHER: []}


def test_a_range_that_was_rewritten_is_not_copied_and_nothing_behind_it() -> None:
    _, level = levels()
    first, second, *more = level.second.extents(KEY)
    rewritten = second._replace(entry=second.entry._replace(generation=1))
    assert waiting([first, rewritten, *more], 0, EVERYTHING) == [first]


def test_a_tier_that_ends_within_a_batch_is_refused() -> None:
    copied, level = levels()
    large = next(one for one in level.filling.batches if one.end - one.first > 1)
    end = level.held.end_offset
    with pytest.raises(ReadFailed, match=f"a batch at {large.first}, and not at {large.first + 1}"):
        copied.build((Part(KEY, large.first + 1, end),))
    with pytest.raises(ReadFailed, match="batches end at"):
        copied.build((Part(KEY, large.first, large.end - 1),))
    with pytest.raises(ReadFailed, match=f"batches end at {end}"):
        copied.build((Part(KEY, large.first, end + 1),))


def test_a_tier_that_ends_within_a_batch_goes_on_with_all_of_it() -> None:
    """A client may have deleted up to there, before anything was copied."""
    copied, level = levels()
    large = next(one for one in level.filling.batches if one.end - one.first > 1)
    copied.ends[KEY] = large.first + 1
    first = next(part for plan in copied.plans() for part in plan if part.topic_partition == KEY)
    assert first.first_offset == large.first
    (image,) = copied.copy(EVERYTHING, 1)
    assert batches_in(image, KEY)


def test_a_damaged_file_gives_no_object() -> None:
    copied, level = levels()
    (plan,) = copied.plans()
    extent = level.second.extents(KEY)[0]
    path = extent_path(DIRECTORY, extent.file_number)
    file = level.disk.open(path)
    at = extent.entry.extent_at + 100
    file.write(at, [bytes((file.read(at, 1)[0] ^ 1,))])
    with pytest.raises(ExtentDamaged):
        copied.build(plan)


def test_the_notes_of_an_object_have_the_markers_that_are_in_it() -> None:
    """Three transactions that are aborted; the object ends before the last marker."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(KEY)
    markers = []

    def append(producer: int) -> None:
        numbers = (producer, 0, 0) if producer >= 0 else (-1, -1, -1)
        attributes = TRANSACTIONAL if producer >= 0 else 0
        batch = make_batch(size=1000, producer=numbers, attributes=attributes)
        log.append(partition, batch, read_header(batch))
        world.run()

    for producer in (7, 8, 9):
        append(producer)
        for _ in range(150):
            append(-1)
        markers.append(partition.log_end_offset)
        end = TransactionEnd(
            ProducerId(producer), ProducerEpoch(0), CoordinatorEpoch(1), is_commit=False
        )
        log.transactions.append_marker(partition, end)
        world.run()
    for _ in range(300):
        append(-1)
    second = opened(world, disk)
    for segment in closed_segments(log):
        split(disk, second, [segment], (KEY,))
        assert take_over(world, second) is None
    copied, held = Copied(disk, second), second.held(KEY)
    assert held is not None
    assert held.end_offset > markers[-1]

    def notes(first: int, end: int) -> tuple[list[int], list[int], int]:
        image = copied.build((Part(KEY, first, end),))
        found = read_summary("a", image.entries[0], reading(bytes_of(image))).notes
        return (
            list(found.aborted.producer_ids),
            list(found.aborted.marker_offsets),
            found.decided_end,
        )

    assert notes(0, held.end_offset) == ([7, 8, 9], markers, held.end_offset)
    assert notes(0, markers[2]) == ([7, 8], markers[:2], UNKNOWN)
    assert notes(markers[0] + 1, markers[2] + 1) == ([8, 9], markers[1:], UNKNOWN)
