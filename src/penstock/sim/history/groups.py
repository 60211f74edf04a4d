"""Positions of consumer groups: what a group has committed does not go back by itself.

A position counts once its commit was acknowledged, or once somebody fetched it. Whoever asks after
that gets it or a higher one, and no member commits a lower one: only the members of the newest
generation may commit. A group that wants to go back says so (`is_rewind`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from penstock.sim.history.events import Commit, Outcome, Partition
from penstock.sim.history.report import Anomaly, Finding


def commit_regressions(commits: Sequence[Commit]) -> Iterable[Finding]:
    """Walk through the observations of each group and partition by the time of their beginning."""
    grouped: dict[tuple[str, Partition], list[Commit]] = defaultdict(list)
    for commit in commits:
        grouped[commit.group, commit.partition].append(commit)
    for (group, partition), observed in grouped.items():
        for commit, known in _regressions(observed):
            verb = "fetched" if commit.is_fetched else "committed"
            detail = f"group {group}: {verb} {commit.offset} after {known}"
            yield Finding(Anomaly.COMMIT_REGRESSION, partition, detail)


def _regressions(commits: list[Commit]) -> Iterable[tuple[Commit, int]]:
    """Yield what is below the highest position that was known before it was asked for.

    A rewind lowers what is known when it begins and when it ends. One of unknown outcome may happen
    at any later time: from its beginning on nothing is judged.
    """
    changes = sorted(_changes(commits))
    known, applied = -1, 0
    for commit in sorted(commits, key=lambda one: one.start_ns):
        while applied < len(changes) and changes[applied][0] < commit.start_ns:
            _, is_lower, offset = changes[applied]
            known = min(known, offset) if is_lower else max(known, offset)
            applied += 1
        if commit.is_rewind and commit.outcome is Outcome.UNKNOWN:
            return
        is_certain = commit.outcome is Outcome.ACKED and not commit.is_rewind
        if is_certain and commit.offset < known:
            yield commit, known


def _changes(commits: list[Commit]) -> Iterable[tuple[int, bool, int]]:
    """Yield (when, whether it lowers, offset) of everything that changes what is known."""
    for commit in commits:
        if commit.outcome is Outcome.ACKED and commit.end_ns is not None:
            yield commit.end_ns, commit.is_rewind, commit.offset
        if commit.is_rewind and commit.outcome is not Outcome.FAILED:
            yield commit.start_ns, True, commit.offset
