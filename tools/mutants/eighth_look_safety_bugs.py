"""Bugs of what decides what is safe to keep, to hand over and to call confirmed."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

RANGE = "storage/second_level/range_rebuild.py"
ADMISSIONS, FETCHING = "kafka/shares/admissions.py", "kafka/shares/fetching.py"

MUTANTS = (
    plant("taken-part-has-the-epoch-behind-it", "Second level: cleaning and repair", "the part of an extent that is taken notes an epoch of which it has nothing",
          (RANGE, "    count = bisect_left(starts, end_offset)\n", "    count = bisect_right(starts, end_offset)\n"),
          kind=Kind.RANGE, near=("tests/storage/test_range_rebuild.py",)),
    plant("share-void-question-is-noted", "Shares", "no answer for a share that is void ends the questions of its group, or takes away a newer answer",
          (ADMISSIONS, "            if self._said.get(key) is not said:\n                continue  # void: the deletion may have come after the answer\n", ""),
          kind=Kind.STALE, near=("tests/kafka/test_share_admissions.py",)),
    plant("share-fetch-is-early-for-ever", "Shares", "a fetch that came before its share was loaded looks again all the time",
          (FETCHING, "        self._is_asking = self._is_refused = self._is_early = False\n", "        self._is_asking = self._is_refused = False\n"),
          kind=Kind.CLEARED, near=("tests/kafka/test_share_waits.py",)),
)  # fmt: skip
