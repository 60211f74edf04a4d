"""Where disks and the tier begin, by age and size of runs; where a partition begins with both."""

import pytest

from penstock.tier.metadata.manifest import Manifest, Snapshot
from penstock.tier.retention import (
    Held,
    Limits,
    first_offset,
    local_limits,
    local_start,
    tier_start,
)
from simulator.kernel.object_store import Bucket
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put

ONE = key(1, 0)
NONE = Limits(-1, -1)


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """Runs of ten offsets each, and of equal size: [0, 40)."""
    bucket = Bucket()
    runs = [
        put(bucket, name(at + 1), [Part(ONE, [batch(10 * at, records=10, size=1_000)])])[0]
        for at in range(4)
    ]
    return manifest_of(runs)


@pytest.mark.parametrize(
    ("local", "whole", "wanted"),
    [(-2, 7, 7), (-1, 7, 7), (5, 7, 5), (9, 7, 7), (5, -1, 5), (-2, -1, -1), (0, 7, 0)],
)
def test_disks_never_keep_more_than_is_kept_at_all(local: int, whole: int, wanted: int) -> None:
    assert local_limits(Limits(local, local), Limits(whole, whole)) == (wanted, wanted)


def run_bytes(manifest: Manifest) -> int:
    return manifest.runs[0].entry.batch_bytes


@pytest.mark.parametrize(("kept_runs", "start"), [(5, 0), (4, 10), (2, 30), (1, 40), (0, 40)])
def test_disks_are_freed_by_whole_runs_down_to_the_size_and_never_beyond_the_tiers_end(
    manifest: Manifest, kept_runs: int, start: int
) -> None:
    size = run_bytes(manifest)
    limits = Limits(-1, kept_runs * size)
    assert local_start(manifest, Held(0, 5 * size), limits, 0) == start


def test_one_byte_less_than_a_run_beyond_the_size_frees_nothing(manifest: Manifest) -> None:
    size = run_bytes(manifest)
    assert local_start(manifest, Held(0, 2 * size - 1), Limits(-1, size), 0) == 0


@pytest.mark.parametrize("kept_ms", [0, 5])
def test_age_is_that_of_a_runs_newest_record(manifest: Manifest, kept_ms: int) -> None:
    newest = manifest.runs[0].entry.max_timestamp
    assert local_start(manifest, Held(0, 1), Limits(kept_ms, -1), newest + kept_ms) == 0
    assert local_start(manifest, Held(0, 1), Limits(kept_ms, -1), newest + kept_ms + 1) > 0


def test_a_log_that_begins_within_a_run_is_freed_of_the_rest_of_it(manifest: Manifest) -> None:
    limits = Limits(-1, 3 * run_bytes(manifest))
    assert local_start(manifest, Held(15, 4 * run_bytes(manifest)), limits, 0) == 20
    assert local_start(manifest, Held(40, 1), Limits(0, 0), 1 << 50) == 40


def test_without_limits_nothing_goes(manifest: Manifest) -> None:
    assert local_start(manifest, Held(0, 1 << 40), NONE, 1 << 50) == 0
    assert tier_start(manifest, Held(40, 1 << 40), NONE, 1 << 50) == 0


@pytest.mark.parametrize(("kept_runs", "start"), [(4, 0), (3, 10), (1, 20), (0, 20)])
def test_the_tier_keeps_the_whole_size_and_all_that_the_disks_have(
    manifest: Manifest, kept_runs: int, start: int
) -> None:
    """The disks begin at 20, and have two runs."""
    size = run_bytes(manifest)
    limits = Limits(-1, kept_runs * size)
    assert tier_start(manifest, Held(20, 2 * size), limits, 0) == start


def cut_out(manifest: Manifest, start: int) -> Manifest:
    """Return the same from a start on, as after a delete in the tier."""
    runs = tuple(run for run in manifest.runs if run.end_offset > start)
    return Manifest(Snapshot(1, start, manifest.end_offset, runs))


@pytest.mark.parametrize(
    ("tier", "local", "wanted"),
    [
        (0, 0, 0),
        (0, 10, 0),  # freed up to the end of a run
        (0, 40, 0),  # of all that was copied
        (15, 30, 15),
        (0, 15, 15),  # within a run: the records below were deleted
        (0, 41, 41),  # a gap: the tier does not join the log
        (30, 12, 12),  # copied later than the log begins
    ],
)
def test_a_partition_begins_in_the_tier_where_disks_were_freed_up_to_the_end_of_a_run(
    manifest: Manifest, tier: int, local: int, wanted: int
) -> None:
    assert first_offset(cut_out(manifest, tier), local) == wanted


def test_a_tier_without_runs_has_no_part_in_it() -> None:
    assert first_offset(Manifest(Snapshot(1, 5, 9, ())), 9) == 9
