"""Findings of certain seeds that are known and not mended yet (issue 15).

They are printed like any other, and a seed that shows anything else is broken all the same. Whoever
mends one takes it out; a seed whose plan has changed and that is clean may stay without harm, and
is told to be taken out.
"""

from collections.abc import Iterable, Mapping, Sequence

KNOWN: Mapping[int, tuple[str, ...]] = {
    28: ("not read in time: follower-0", "the final reader does not come to the end"),
    63: ("is confirmed here, and no master has said so",),
}
"""Seed -> what its findings may say."""


def is_known(seed: int, findings: Sequence[str]) -> bool:
    """Whether each of the findings is one that this seed is known for."""
    known = KNOWN.get(seed, ())
    return bool(known) and all(any(part in one for part in known) for one in findings)


def broken(runs: Iterable[tuple[int, Sequence[str]]]) -> list[int]:
    """Return the seeds with findings that are not known."""
    return [seed for seed, findings in runs if findings and not is_known(seed, findings)]
