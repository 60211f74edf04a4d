"""Bugs of extent files and of the second level that is made of them."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Second level"
HELD = "storage/second_level/held.py"
HELD_FILES = "storage/second_level/held_files.py"
READING = "storage/second_level/reading.py"
STORE = "storage/second_level/store.py"
FITTING = "storage/second_level/fitting.py"
SPLIT = "storage/second_level/split.py"
PLANNING = "storage/second_level/planning.py"
MANIFEST = "storage/second_level/manifest.py"
INSTALL = "storage/replicate/install.py"
LEVEL = ("tests/storage/test_second_level.py",)
SPLITTING = ("tests/storage/test_splitting.py",)
COPIES = ("tests/storage/test_second_level_copies.py",)
WHOLE = ("tests/storage/test_whole_from.py",)
REPLICABLE = "storage/replicate/replicable.py"
FILES = ("tests/extents/test_extent_files.py",)

MUTANTS = (
    plant("extent-file-tells-no-block-from-another", AREA, "a block with flipped bits is given to consumers",
          ("extents/reader.py", "    if crc32c(data) != blocks.checksums[block]:\n", "    if False:\n"),
          kind=Kind.GUARD, near=FILES),
    plant("extent-blocks-of-another-extent", AREA, "an index whose blocks lie elsewhere in the file is believed",
          ("extents/reader.py", "is_whole = blocks.places[0] == entry.extent_at and ends == starts", "is_whole = True"),
          kind=Kind.GUARD, near=FILES),
    plant("extent-block-of-a-time-one-off", AREA, "the first batch at a time is looked for behind its block",
          ("extents/layout.py", "            if newest >= timestamp_ms:", "            if newest > timestamp_ms:"),
          kind=Kind.RANGE, near=FILES),
    plant("extent-epoch-of-the-file", AREA, "an epoch of a partition begins with the extent and not with its batch",
          ("extents/writer.py", "self.epochs.append((header.leader_epoch, header.base_offset))", "self.epochs.append((header.leader_epoch, self.first.base_offset))"),
          kind=Kind.EPOCH, near=FILES),
    plant("second-level-takes-a-gap", AREA, "a file that leaves offsets out is taken over, and the log releases them",
          (FITTING, "    if is_next or is_anew:\n", "    if True:\n"),
          kind=Kind.GUARD, near=LEVEL),
    plant("second-level-holds-before-the-manifest", AREA, "batches count as held before the manifest with them is durable",
          (STORE, "        def put() -> None:\n", "        self._held.add(number, found.data)\n\n        def put() -> None:\n"),
          (STORE, "        steps = self._noting(self._held.adding(found.file.number, found.data))\n", "        steps = self._noting(iter(()))\n"),
          kind=Kind.ORDER, near=LEVEL),
    plant("second-level-removes-what-is-read", AREA, "a file goes while a read that began before uses it",
          (STORE, "            self._guard.when_clear(clear)\n", "            clear()\n"),
          kind=Kind.CLEARED, near=LEVEL),
    plant("second-level-older-in-place-of-newer", AREA, "a file that was made twice puts older extents in the place of newer ones",
          (FITTING, "    is_anew = is_anew and (here is None or here.end_offset <= log_start)\n", ""),
          kind=Kind.GUARD, near=SPLITTING),
    plant("second-level-removes-another-log-s-file", AREA, "a file that goes late is one of the log that was opened anew",
          (STORE, "            if not self._is_closed:\n                self._offload.submit(remove", "            if True:\n                self._offload.submit(remove"),
          kind=Kind.GUARD, near=SPLITTING),
    plant("second-level-splits-what-is-not-synced", AREA, "an extent outlives records that a loss of power takes from the log",
          (PLANNING, " and is_due and end <= self._flushed\n", " and is_due\n"),
          kind=Kind.GUARD, near=SPLITTING),
    plant("second-level-splits-a-moment-early", AREA, "what is exactly as old as level 0 keeps it is split",
          (PLANNING, "newest_ms < self._limit_ms", "newest_ms <= self._limit_ms"),
          kind=Kind.RANGE, near=SPLITTING),
    plant("second-level-plan-outlives-its-file", AREA, "a plan is good for a second file after the first was taken over",
          ("storage/second_level/splitting.py", "        return self._plan if is_current else None\n", "        return self._plan\n"),
          kind=Kind.CLEARED, near=SPLITTING),
    plant("second-level-releases-the-oldest-alone", AREA, "segments that were moved stay on the disk until a start, all but the first",
          ("storage/commit_log/retention.py", "        return entry.end_offset <= partition.commit_log_start_offset\n", "        return segment.base == 0 and entry.end_offset <= partition.commit_log_start_offset\n"),
          kind=Kind.CLEARED, near=SPLITTING),
    plant("housekeeper-writes-indexes", AREA, "a job puts an index into the place of the node's",
          ("housekeeper/metered.py", '        raise OSError(errno.EROFS, f"{path} is not a job\'s to write ({len(data)} bytes)")\n', "        self._disk.replace(path, data)\n"),
          kind=Kind.GUARD, near=("tests/housekeeper/test_jobs.py",)),
    plant("second-level-file-goes-with-its-first-extent", AREA, "a file goes when one partition does not need it any more",
          (HELD_FILES, "            if not file.held_count:\n", "            if file.held_count >= 0:\n"),
          kind=Kind.CLEARED, near=LEVEL),
    plant("second-level-size-of-one-extent-less", AREA, "the size of a partition leaves out its newest extent",
          (HELD, "high = min(bisect_left(held.end_offsets, end) + 1, len(held.end_offsets))", "high = min(bisect_left(held.end_offsets, end), len(held.end_offsets))"),
          kind=Kind.RANGE, near=LEVEL),
    plant("second-level-reads-beyond-the-limit", AREA, "who reads below a limit gets batches above it",
          (READING, "            if is_above or (found", "            if (found"),
          kind=Kind.RANGE, near=LEVEL),
    plant("second-level-forgets-cuts", AREA, "after a start an unclean election's cut does not count any more",
          (STORE, "            if isinstance(step, Cut):\n                self._empty.update(self._held.cut(step.topic_partition, step.end_offset))\n                continue\n", "            if isinstance(step, Cut):\n                continue\n"),
          kind=Kind.SNAPSHOT, near=(*LEVEL, *COPIES)),
    plant("second-level-cut-reaches-newer-files", AREA, "a cut hides what was written after it",
          (MANIFEST, "            while cuts and cuts[0].next_number <= file.order:\n                yield cuts.popleft()\n", ""),
          kind=Kind.ORDER, near=(*LEVEL, *COPIES)),
    plant("second-level-cut-keeps-its-decisions", AREA, "what a marker behind a cut decided stays decided",
          (READING, "        decided_end = UNKNOWN if extent.is_cut else notes.decided_end\n", "        decided_end = notes.decided_end\n"),
          kind=Kind.STALE, near=LEVEL),
    plant("split-copies-damage", AREA, "a damaged frame gets a new checksum in the second level",
          (SPLIT, "    check_body(frame, 0, header)\n", ""),
          kind=Kind.GUARD, near=LEVEL),
    plant("split-copies-what-is-held", AREA, "batches that the level has are copied again",
          (SPLIT, "    first = max(columns.entry_of(Offset(start)), 0)\n", "    first = 0\n"),
          kind=Kind.RANGE, near=LEVEL),
    plant("base-without-its-extents", AREA, "a new member takes a base without what was released",
          ("replica/install.py", "position >= self._manifest.end_place", "position >= self._manifest.position"),
          kind=Kind.RANGE, near=("tests/replica/test_install.py",)),
    plant("base-starts-where-the-commit-log-does", AREA, "a new member hides what the second level brought",
          (INSTALL, "before.start_offset <= first <= before.end_offset", "before.end_offset == first"),
          kind=Kind.RANGE, near=COPIES),
    plant("slave-lacks-what-it-has-moved", AREA, "a slave that has moved more than a quiet master is never in step",
          ("replica/followed_set.py", "whole_from = self.member.log.reach.whole_from\n", "whole_from = self.member.log.start_position\n"),
          kind=Kind.STALE, near=("tests/runtime/test_ha_second_level.py",)),
    plant("newest-segment-lacks-nothing", AREA, "a slave that began with the newest segment joins without what its set keeps",
          (INSTALL, "missing_below = manifest.start_position if is_part else Position(0)", "missing_below = Position(0)"),
          kind=Kind.GUARD, near=WHOLE),
    plant("whole-copy-lacks-what-its-master-lacked", AREA, "a slave that has copied all never joins, since its master once began with the newest segment",
          (INSTALL, "        own = manifest.second._replace(missing_below=missing_below)\n", "        own = manifest.second._replace(missing_below=max(missing_below, manifest.second.missing_below))\n"),
          kind=Kind.STALE, near=WHOLE),
    plant("moved-is-not-kept", AREA, "a slave joins without what its master has moved out of the commit log",
          (MANIFEST, "        oldest = min(oldest_position, self.held_from) if self.files else oldest_position\n", "        oldest = oldest_position\n"),
          kind=Kind.GUARD, near=WHOLE),
    plant("kept-behind-a-gap-only", AREA, "a slave joins without the segments that its master keeps before a gap",
          ("storage/commit_log/parts.py", "            oldest_position=lambda: self.store.segments[0].base,\n", "            oldest_position=lambda: self.runs.start_position,\n"),
          kind=Kind.RANGE, near=WHOLE),
    plant("held-from-the-last-file", AREA, "with each file that comes older ones seem to be gone",
          (MANIFEST, "        held_from = self.held_from if self.files else oldest_position\n", "        held_from = oldest_position\n"),
          kind=Kind.STALE, near=WHOLE),
    plant("newest-segment-beside-a-second-level", AREA, "a slave begins without extents that it then lacks for ever",
          ("storage/replicate/base_export.py", "    if newest_only and not second.files:\n", "    if newest_only:\n"),
          kind=Kind.GUARD, near=COPIES),
    plant("newest-segment-before-the-first-file", AREA, "a slave begins with the newest segment while its master is about to move the others",
          (REPLICABLE, "newest_only=newest_only and not self.config.moves", "newest_only=newest_only"),
          kind=Kind.GUARD, near=WHOLE),
    plant("base-extents-unchecked", AREA, "a new member believes the bytes of a copied extent file",
          ("storage/second_level/files.py", "        entries = check_extent_file(path, size, file.read).entries\n", "        entries = read_directory(path, size, file.read).entries\n"),
          kind=Kind.GUARD, near=COPIES),
    plant("aborted-of-the-second-level-untold", AREA, "a committed reader of released batches hears nothing of aborted transactions",
          ("storage/read/aborted_search.py", "                found += more\n                if not may_go_on or _tells_all", "                if not may_go_on or _tells_all"),
          kind=Kind.GUARD, near=("tests/storage/test_aborted_search.py",)),
)  # fmt: skip
