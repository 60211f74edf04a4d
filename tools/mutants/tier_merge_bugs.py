"""Bugs of merges in the tier: what is merged, of what the object is made, and when it counts."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Tier"
COPIER = "tier/copies/copier.py"
MERGE = "tier/copies/merge.py"
PLAN = "tier/copies/merge_plan.py"
BUILD = "tier/read/merge.py"
STATE = "tier/metadata/state.py"
MANIFEST = "tier/metadata/manifest.py"
DRIVER = "runtime/tier/copying.py"
MERGING = "runtime/tier/merging.py"
FREEING = "runtime/tier/freeing.py"
MERGES = ("tests/tier/test_merges.py",)
PLANS = ("tests/tier/test_merge_plan.py",)
BUILDS = ("tests/tier/test_merge_build.py",)
DRIVING = ("tests/runtime/test_tier_merging.py",)
FREES = ("tests/runtime/test_tier_freeing.py",)
MODEL = ("tests/tier/test_copies_model.py",)
REBUILD = "tier/read/rebuild.py"
REBUILT = ("tests/tier/test_rebuilt_merges.py",)

MUTANTS = (
    plant(
        "tier-merge-of-runs-that-are-others",
        AREA,
        "a merge of runs that were cut and copied again since takes the place of these",
        (
            MERGE,
            "            if all(_is_there(one, manifests) for one in self._plan):\n",
            "            if self._plan:\n",
        ),
        kind=Kind.STALE,
        near=MERGES,
    ),
    plant(
        "tier-merge-across-the-local-start",
        AREA,
        "the tier seems to have nothing below the local start, since no run begins there",
        (
            PLAN,
            "        is_across = run.first_offset < local_start < run.end_offset\n",
            "        is_across = False\n",
        ),
        (
            PLAN,
            "        if row and (run.first_offset == local_start or not is_small or is_across):\n",
            "        if row and not is_small:\n",
        ),
        kind=Kind.GUARD,
        near=PLANS,
    ),
    plant(
        "tier-merge-ends-behind-the-local-start",
        AREA,
        "small runs on both sides of the local start become one",
        (PLAN, "run.first_offset == local_start or ", ""),
        kind=Kind.GUARD,
        near=PLANS,
    ),
    plant(
        "tier-frees-into-a-merge",
        AREA,
        "disks are freed up to where a run ends that is about to be none",
        (
            FREEING,
            "        if is_edge and source.may_free(partition.topic_partition, freed):\n",
            "        if is_edge:\n",
        ),
        kind=Kind.ORDER,
        near=FREES,
    ),
    plant(
        "tier-frees-into-what-was-merged",
        AREA,
        "disks are freed up to where a run ended when the store was asked",
        (
            FREEING,
            "        if is_edge and source.may_free(partition.topic_partition, freed):\n",
            "        if source.may_free(partition.topic_partition, freed):\n",
        ),
        kind=Kind.STALE,
        near=FREES,
    ),
    plant(
        "tier-merge-forgets-what-it-freed",
        AREA,
        "a merge that waits for its answer does not keep disks from being freed within it",
        (
            COPIER,
            "        return self._merge is None or not self._merge.is_within(topic_partition, offset)\n",
            "        waits = self._merge is not None and self._merge.asked is not self._asked\n        return not waits or not self._merge.is_within(topic_partition, offset)\n",
        ),
        kind=Kind.CLEARED,
        near=MERGES,
    ),
    plant(
        "tier-merge-ends-a-round",
        AREA,
        "copies that wait to be committed are forgotten when a merge is",
        (
            COPIER,
            "        elif self.step is not Step.CUT:  # a cut",
            "        if self.step is not Step.CUT:  # a cut",
        ),
        kind=Kind.CLEARED,
        near=MERGES,
    ),
    plant(
        "tier-merge-refused-breaks-a-round",
        AREA,
        "a merge that is refused has copies under way given up",
        (
            COPIER,
            "        if reason is Reason.FENCED or self.step is Step.IDLE:\n",
            "        if reason:\n",
        ),
        kind=Kind.CLEARED,
        near=MERGES,
    ),
    plant(
        "tier-merge-waits-for-room",
        AREA,
        "where the metadata is full nothing makes it less full",
        (STATE, " and not command.is_to_replace", ""),
        kind=Kind.GUARD,
        near=MERGES,
    ),
    plant(
        "tier-merge-does-not-pause",
        AREA,
        "a merge whose answer is lost is asked for without a pause",
        (
            COPIER,
            "            return self.is_open and self._asked is None\n",
            "            return self.is_open\n",
        ),
        kind=Kind.GUARD,
        near=MERGES,
    ),
    plant(
        "tier-merge-of-the-same-generation",
        AREA,
        "a replacement could be replaced by what it has replaced",
        (
            MANIFEST,
            "run.entry.generation <= newest for run",
            "run.entry.generation < newest for run",
        ),
        kind=Kind.EPOCH,
        near=("tests/tier/test_metadata.py",),
    ),
    plant(
        "tier-merge-decides-by-a-cut-run",
        AREA,
        "a run that was cut decides transactions of what was cut from it",
        (
            BUILD,
            "max(self._decided_end, decided_by(run, notes))",
            "max(self._decided_end, notes.decided_end)",
        ),
        kind=Kind.RANGE,
        near=BUILDS,
    ),
    plant(
        "tier-merge-decides-all",
        AREA,
        "a transaction that is open at the end of a merged run counts as decided",
        (
            BUILD,
            "self._writer.end(Aborted(*self._aborted), self._decided_end, ",
            "self._writer.end(Aborted(*self._aborted), None, ",
        ),
        kind=Kind.RANGE,
        near=BUILDS,
    ),
    plant(
        "tier-merge-tells-of-what-was-cut",
        AREA,
        "an abort whose marker was cut is told of",
        (BUILD, "            if row[2] < run.end_offset:\n", "            if True:\n"),
        kind=Kind.RANGE,
        near=BUILDS,
    ),
    plant(
        "tier-merge-over-a-gap",
        AREA,
        "runs with a gap between them become one that has it",
        (
            BUILD,
            "            if header.base_offset != self._end:\n",
            "            if header.base_offset < self._end:\n",
        ),
        kind=Kind.GUARD,
        near=BUILDS,
    ),
    plant(
        "tier-merge-believes-other-epochs",
        AREA,
        "batches of an epoch that the metadata does not know are taken over",
        (BUILD, "        if tuple(self._run_epochs) != run.epochs:\n", "        if False:\n"),
        kind=Kind.GUARD,
        near=BUILDS,
    ),
    plant(
        "tier-merge-of-everything-again",
        AREA,
        "what was merged is merged again with each run that comes behind it",
        (PLAN, "key=lambda run: run.entry.generation)", "key=lambda run: 0)"),
        kind=Kind.EPOCH,
        near=PLANS,
    ),
    plant(
        "tier-merge-settled-for-ever",
        AREA,
        "where runs were cut and copied again nothing is merged below",
        (
            PLAN,
            "        if settled is None or manifest.run_from(settled.first_offset) != settled:\n",
            "        if settled is None:\n",
        ),
        kind=Kind.STALE,
        near=PLANS,
    ),
    plant(
        "tier-merge-too-young-once",
        AREA,
        "runs that were too young when they were looked at are never merged",
        (
            PLAN,
            "        if seen is not None and is_same and now_ms < seen.ripe_ms:\n",
            "        if is_same:\n",
        ),
        kind=Kind.STALE,
        near=PLANS,
    ),
    plant(
        "tier-merge-settled-too-far",
        AREA,
        "runs in front of a large one are not looked at when they are old",
        (
            PLAN,
            "                open_rows, ripe_ms = [*open_rows, row[0]], min(ripe_ms, row_ripe_ms)\n",
            "                ripe_ms = min(ripe_ms, row_ripe_ms)\n",
        ),
        kind=Kind.RANGE,
        near=PLANS,
    ),
    plant(
        "tier-copies-wait-for-a-merge",
        AREA,
        "a slow merge keeps everything from being copied",
        (
            DRIVER,
            "        task = beside.create_task(todo)\n",
            "        task = self._group.create_task(todo)\n",
        ),
        (
            DRIVER,
            "            async with asyncio.TaskGroup() as group:\n",
            "            async with asyncio.TaskGroup() as group:\n                self._group = group\n",
        ),
        kind=Kind.ORDER,
        near=DRIVING,
    ),
    plant(
        "tier-merge-of-damage-again-and-again",
        AREA,
        "a damaged object has its partition read again and again",
        (
            MERGING,
            "                        self.planner.put_off(one.part.topic_partition, DAMAGED_MS)\n",
            "                        self.planner.put_off(one.part.topic_partition, 0)\n",
        ),
        kind=Kind.GUARD,
        near=DRIVING,
    ),
    plant(
        "tier-merge-without-its-deadline",
        AREA,
        "a merge is put when its object may be deleted",
        (
            DRIVER,
            "            async with asyncio.timeout(self._seconds_until(upload.until_ms)):\n",
            "            async with asyncio.timeout(None):\n",
        ),
        kind=Kind.CLEARED,
        near=DRIVING,
    ),
    plant(
        "history-ends-where-runs-were-merged",
        AREA,
        "a driver that asks for more runs gets a merged one, and leaves the rest to brokers",
        (
            "spark/tier/plan.py",
            "        kept = [run for run in self.all if run.end_offset <= first]\n",
            "        kept = self.all\n",
        ),
        kind=Kind.STALE,
        near=("tests/spark/test_tier_pieces.py",),
    ),
    plant(
        "tier-rebuilt-without-a-smaller-merge",
        AREA,
        "of an object that was merged again smaller nothing is used, and what only it has is lost",
        (REBUILD, "    if not all(map(_is_as_produced, [*inside, run])):\n", "    if inside:\n"),
        kind=Kind.STALE,
        near=REBUILT,
    ),
    plant(
        "tier-rebuilt-with-cleaned-parts",
        AREA,
        "what was cleaned is laid over a part of what was not",
        (
            REBUILD,
            "    return run.entry.generation == 0 or run.entry.newest_horizon_ms == NOT_CLEANED\n",
            "    return run.entry.generation >= 0 or run.entry.newest_horizon_ms == NOT_CLEANED\n",
        ),
        kind=Kind.GUARD,
        near=REBUILT,
    ),
    plant(
        "tier-rebuilt-with-lost-epochs",
        AREA,
        "a merge of what an unclean election has cut stays above the one that came after it",
        (
            REBUILD,
            "    if last.end_offset > run.end_offset and _agree(last, run):\n",
            "    if last.end_offset > run.end_offset:\n",
        ),
        kind=Kind.STALE,
        near=REBUILT,
    ),
    plant(
        "tier-rebuilt-with-an-overlap",
        AREA,
        "two merges are in use of which each has the same offsets",
        (
            REBUILD,
            "        run, above = _cut(run, last.first_offset), [last, *above]\n",
            "        above = [last, *above]\n",
        ),
        kind=Kind.RANGE,
        near=REBUILT,
    ),
    plant(
        "tier-rebuilt-without-a-beginning",
        AREA,
        "what an older merge has below a later one is not used, and is a gap",
        (
            REBUILD,
            "[*below, *_below(inside[:1], run.first_offset), run, *above]",
            "[*below, run, *above]",
        ),
        kind=Kind.RANGE,
        near=REBUILT,
    ),
    plant(
        "tier-rebuilt-with-epochs-of-before",
        AREA,
        "merges of the same epochs are taken for different ones where they begin in the midst of one",
        (
            REBUILD,
            "    return [one for one, later in pairwise([*begun, (0, end)]) if later[1] > first]\n",
            "    return [one for one, _ in pairwise([*begun, (0, end)])]\n",
        ),
        kind=Kind.RANGE,
        near=REBUILT,
    ),
    plant(
        "tier-merge-forgets-what-is-below-the-local-start",
        AREA,
        "where disks are freed run by run nothing is ever merged",
        (PLAN, "    return [at_end, *across, *below]\n", "    return [at_end, *across]\n"),
        kind=Kind.STALE,
        near=PLANS,
    ),
    plant(
        "tier-merge-forgets-what-is-across-the-local-start",
        AREA,
        "a run within which the local start was is never merged",
        (PLAN, "    return [at_end, *across, *below]\n", "    return [at_end, *below]\n"),
        kind=Kind.STALE,
        near=PLANS,
    ),
    plant(
        "tier-merge-looks-again-in-front-of-a-large-run",
        AREA,
        "what a large run ends for good is looked at with every copy",
        (
            PLAN,
            "    if split is None or split.entry.batch_bytes >= large_bytes:\n",
            "    if split is None:\n",
        ),
        kind=Kind.GUARD,
        near=PLANS,
    ),
    plant(
        "tier-merge-forgets-in-front-of-young-runs",
        AREA,
        "few runs below the local start are forgotten when there are more that are young above it",
        (PLAN, "[*open_rows, row[0]], min(", "[row[0]], min("),
        kind=Kind.STALE,
        near=PLANS,
    ),
)
