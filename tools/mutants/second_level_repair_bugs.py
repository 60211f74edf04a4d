"""Bugs of what keeps a second level clean and whole: passes, early rolls, repairs from members."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Second level: cleaning and repair"
CLEANING = "storage/second_level/cleaning.py"
HELD = "storage/second_level/held.py"
FITTING = "storage/second_level/fitting.py"
STORE = "storage/second_level/store.py"
REBUILD = "storage/second_level/rebuild.py"
RANGE = "storage/second_level/range_rebuild.py"
EARLY = "storage/commit_log/early_roll.py"
CLEANINGS = "broker/sets/cleanings.py"
REPAIRS = "broker/sets/extent_repairs.py"
ANSWERS = "broker/sets/batch_answers.py"
EXTENTS = ("tests/storage/test_cleaned_extents.py",)
TURNS = ("tests/broker/test_cleanings.py",)
REPAIRED = ("tests/storage/test_extent_repair.py",)
PEERS = ("tests/broker/test_extent_repairs.py",)
RANGES = ("tests/storage/test_range_rebuild.py",)
RANGE_PEERS = ("tests/broker/test_range_repairs.py",)
ROLLS = ("tests/storage/test_early_roll.py",)

MUTANTS = (
    plant("cleaned-range-forgets-the-epoch-in-force", AREA, "an epoch that began before an extent of a range ends where the next one begins",
          (CLEANING, "        first = max(bisect_right(starts, self._begin) - 1, 0)\n", "        first = bisect_right(starts, self._begin)\n"),
          kind=Kind.EPOCH, near=EXTENTS),
    plant("cleaned-range-begins-with-its-first-batch", AREA, "a range whose first batches went leaves a gap, and is refused or hides what is before it",
          (CLEANING, "self._writer.begin(key, self._generation, first_offset=self._begin)", "self._writer.begin(key, self._generation, first_offset=header.base_offset)"),
          kind=Kind.RANGE, near=EXTENTS),
    plant("cleaned-beyond-what-is-decided", AREA, "a pass cleans a transaction whose end the extents do not have",
          (CLEANING, "            bound = max(bound, min(notes.decided_end, extent.end_offset))\n", "            bound = max(bound, extent.end_offset)\n"),
          kind=Kind.RANGE, near=EXTENTS),
    plant("cleaned-range-of-what-is-held-no-longer", AREA, "a file that was made before another pass puts older records in the place of newer ones",
          (FITTING, "    if is_within and begins and is_newer:\n", "    if is_within and begins:\n"),
          kind=Kind.STALE, near=EXTENTS),
    plant("cleaned-range-takes-the-rest-of-an-extent", AREA, "what lies behind the end of a pass goes with the extent that it ends in",
          (HELD, "        high = bisect_right(self.end_offsets, entry.end_offset)\n        if low == 0:", "        high = bisect_left(self.end_offsets, entry.end_offset) + 1\n        if low == 0:"),
          kind=Kind.RANGE, near=EXTENTS),
    plant("cleaning-that-can-do-nothing-is-done-again", AREA, "a partition with an open transaction is read again and again, and no other is cleaned",
          (CLEANINGS, "            self._stuck[job.key] = job.end_offset\n", ""),
          kind=Kind.CLEARED, near=TURNS),
    plant("cleaning-that-failed-once-counts-for-ever", AREA, "the alarm of a partition that is cleaned again does not end",
          (CLEANINGS, "        self._set_aside.succeeded(job.key)\n", ""),
          kind=Kind.CLEARED, near=TURNS),
    plant("repair-takes-any-batches", AREA, "batches with a right CRC of another log come in the place of those that were here",
          (REBUILD, "                if end <= extent.end_offset and filled.crc != blocks.checksums[block]:\n", "                if False:\n"),
          kind=Kind.GUARD, near=REPAIRED),
    plant("repair-counts-nothing", AREA, "an extent without its index is filled with batches that were not here",
          (REBUILD, "        if not extent.is_cut and found != said:\n", "        if False:\n"),
          kind=Kind.GUARD, near=REPAIRED),
    plant("repair-brings-back-what-was-cut", AREA, "records behind an unclean election's cut come back with a repair",
          (REBUILD, "            if start >= extent.end_offset:\n                break\n", ""),
          (REBUILD, "                if header.base_offset < extent.end_offset:\n                    writer.add(batch)\n                    self.copied_bytes += len(batch)\n", "                writer.add(batch)\n                self.copied_bytes += len(batch)\n"),
          kind=Kind.RANGE, near=REPAIRED),
    plant("repair-drops-what-is-held", AREA, "a file without an extent of the damaged one takes its place",
          (STORE, "            elif missing:\n", "            elif False:\n"),
          kind=Kind.GUARD, near=REPAIRED),
    plant("repair-never-ends", AREA, "a file that was repaired counts as damaged, and is repaired again",
          (STORE, "            for number in numbers:\n                self.damage.forget(number)\n", ""),
          kind=Kind.CLEARED, near=REPAIRED),
    plant("repair-asks-without-a-pause", AREA, "a member that nobody can help asks everybody each second",
          (REPAIRS, "        damaged.not_before_ms = self._broker.clock.monotonic_ms() + wait_ms\n", "        damaged.not_before_ms = self._broker.clock.monotonic_ms()\n"),
          kind=Kind.GUARD, near=PEERS),
    plant("repair-gives-what-may-be-cut", AREA, "a member gives batches that the set has not confirmed",
          (ANSWERS, "member.log.read(partition, offset, PIECE_BYTES, member.confirm_position)", "member.log.read(partition, offset, PIECE_BYTES, member.log.end_position)"),
          kind=Kind.GUARD, near=PEERS),
    plant("repair-answers-of-another-mastership", AREA, "a member that follows an older master gives what may not be the set's",
          (ANSWERS, "member.role is not Role.IDLE and member.leader_epoch == question.leader_epoch", "member.role is not Role.IDLE"),
          kind=Kind.EPOCH, near=PEERS),
    plant("repair-gives-cleaned-batches-as-produced", AREA, "what one member's cleaning has left is mixed with what another's has",
          (ANSWERS, "        if member.log.splitting.damage.is_rewritten(*where):\n", "        if False:\n"),
          kind=Kind.GUARD, near=RANGE_PEERS),
    plant("range-of-two-passes", AREA, "a marker that a later pass has dropped is missing behind the batches of an earlier one",
          (RANGE, "        if piece.marks != self._marks:\n", "        if False:\n"),
          kind=Kind.STALE, near=RANGES),
    plant("range-of-two-members", AREA, "a part of another member's cleaned range stands before what is as it was produced here",
          (RANGE, "        self._end = max(self._end, marks.rewritten_end)\n", ""),
          kind=Kind.RANGE, near=RANGES),
    plant("range-leaves-own-cleaned-rest", AREA, "what this member's cleaning has left stands behind what another's has",
          (RANGE, "        self._end = max(end_offset, rewritten_end(extents))\n", "        self._end = end_offset\n"),
          kind=Kind.RANGE, near=RANGES),
    plant("range-counts-as-cleaned", AREA, "older values of keys stay for ever in what another member had not cleaned",
          (RANGE, "entry.newest_horizon_ms if entry.generation else NOT_CLEANED", "entry.newest_horizon_ms"),
          kind=Kind.STALE, near=RANGES),
    plant("range-reaches-beyond-what-is-held", AREA, "a range that ends where no extent does is written, and refused for ever",
          (RANGE, "        if self._end > self._held_end:\n", "        if False:\n"),
          kind=Kind.RANGE, near=RANGES),
    plant("range-without-a-look-at-its-blocks", AREA, "bits that flipped on another member's disk get a right checksum here",
          (RANGE, "        read_block(_THERE, blocks, block, lambda _, __: data)\n", ""),
          kind=Kind.GUARD, near=RANGES),
    plant("range-ends-before-its-last-batch", AREA, "offsets at the end of a range are held by nobody",
          (RANGE, "        if coming.rest or self._written_end != end:\n", "        if coming.rest:\n"),
          kind=Kind.GUARD, near=RANGES),
    plant("early-roll-a-moment-early", AREA, "a batch that is exactly as old as its topic allows closes the file",
          (EARLY, "0 <= at_ms < now_ms - settings.close_ms", "0 <= at_ms <= now_ms - settings.close_ms"),
          kind=Kind.RANGE, near=ROLLS),
    plant("early-roll-without-a-bound", AREA, "a topic with a lag of a millisecond closes a file in each pass, and the disk fills with them",
          (EARLY, "            self._last_ms = now_ms\n", ""),
          kind=Kind.CLEARED, near=ROLLS),
    plant("early-roll-waits-for-a-clock-set-back", AREA, "after a clock was set back nothing is closed early until it has caught up",
          (EARLY, "0 <= now_ms - self._last_ms < self._interval_ms", "now_ms - self._last_ms < self._interval_ms"),
          kind=Kind.GUARD, near=ROLLS),
    plant("early-roll-where-nothing-is-moved", AREA, "one topic that is kept for ever keeps every file that was closed early",
          (EARLY, "        self._is_allowed = config.moves\n", "        self._is_allowed = True\n"),
          kind=Kind.GUARD, near=ROLLS),
    plant("early-roll-of-what-was-deleted", AREA, "a deleted record closes the file",
          (EARLY, "        oldest = max(bisect_right(partition.bases, start) - 1, 0)\n", "        oldest = 0\n"),
          kind=Kind.STALE, near=ROLLS),
    plant("early-roll-takes-whole-files", AREA, "a quiet set takes a file of full size each time",
          (EARLY, "            self._store.begin_small()\n", ""),
          kind=Kind.GUARD, near=ROLLS),
)  # fmt: skip
