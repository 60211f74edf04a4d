"""Check: committed positions of a consumer group do not go back.

A position is known once its commit was acknowledged or a client fetched it. Later fetches must
return it or a higher one, and no member may commit a lower one, since only members of the newest
generation may commit. An intended step back is marked (`is_rewind`). As with log ends, a fetched
position may be older than one that became known less than `stale_ns_max` before the request: a
replaced coordinator may answer for that long. If groups expire after a time without commits
(`kept_ns`), nothing is known of a group after that time.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence

from simulator.history.events import NOTHING_COMMITTED, Commit, Outcome, Partition, Rules
from simulator.history.report import Anomaly, Finding

NEVER_NS = -1 << 62


def commit_regressions(
    commits: Sequence[Commit],
    rules: Rules,
) -> Iterable[Finding]:
    """Walk through the observations of each group and partition by the time of their beginning."""
    grouped: dict[tuple[str, Partition], list[Commit]] = defaultdict(list)
    for commit in commits:
        end_ns = commit.end_ns or commit.start_ns
        if commit.is_fetched and rules.may_be_old(commit.told_by, commit.start_ns, end_ns):
            continue
        grouped[commit.group, commit.partition].append(commit)
    for (group, partition), observed in grouped.items():
        for commit, known in _regressions(observed, rules):
            verb = "fetched" if commit.is_fetched else "committed"
            detail = f"group {group}: {verb} {commit.offset} after {known}"
            yield Finding(Anomaly.COMMIT_REGRESSION, partition, detail)


class _Known:
    """The highest position that is known, and for how long it is sure to be kept."""

    __slots__ = ("_kept_ns", "_until_ns", "offset")

    def __init__(self, kept_ns: int | None) -> None:
        self._kept_ns = kept_ns
        self._until_ns = NEVER_NS
        self.offset = NOTHING_COMMITTED

    def is_over(self, at_ns: int) -> bool:
        """Whether the group may be forgotten by then."""
        return self._kept_ns is not None and at_ns >= self._until_ns

    def apply(self, at_ns: int, offset: int, sent_ns: int, *, is_lower: bool) -> None:
        if self.is_over(at_ns):
            self.offset = NOTHING_COMMITTED
        self.offset = min(self.offset, offset) if is_lower else max(self.offset, offset)
        if self._kept_ns is not None:
            self._until_ns = max(self._until_ns, sent_ns + self._kept_ns)


def _regressions(commits: list[Commit], rules: Rules) -> Iterable[tuple[Commit, int]]:
    """Yield what is below the highest position that was known before it was asked for.

    A rewind lowers what is known when it begins and when it ends. One of unknown outcome may happen
    at any later time: from its beginning on nothing is judged.
    """
    changes = sorted(_changes(commits))
    known, applied = _Known(rules.positions_kept_ns), 0
    earlier: list[tuple[int, int]] = [(NEVER_NS, NOTHING_COMMITTED)]
    for commit in sorted(commits, key=lambda one: one.start_ns):
        while applied < len(changes) and changes[applied][0] < commit.start_ns:
            at_ns, is_lower, offset, sent_ns = changes[applied]
            known.apply(at_ns, offset, sent_ns, is_lower=is_lower)
            earlier.append((at_ns, known.offset))
            applied += 1
        if commit.is_rewind and commit.outcome is Outcome.UNKNOWN:
            return
        is_certain = commit.outcome is Outcome.ACKED and not commit.is_rewind
        if not is_certain or known.is_over(commit.end_ns or commit.start_ns):
            continue
        least = known.offset
        if commit.is_fetched:
            least = _lowest_since(earlier, commit.start_ns - rules.stale_ns_max)
        if commit.offset < least:
            yield commit, least


def _lowest_since(earlier: list[tuple[int, int]], since_ns: int) -> int:
    """Return the lowest of the positions that were known from `since_ns` on."""
    first = bisect.bisect_left(earlier, (since_ns, NOTHING_COMMITTED)) - 1
    return min(offset for _, offset in earlier[max(first, 0) :])


def _changes(commits: list[Commit]) -> Iterable[tuple[int, bool, int, int]]:
    """Yield (when, whether it lowers, offset, when it was sent) of what changes what is known.

    What was only fetched was sent at no time: it keeps no group from being forgotten.
    """
    for commit in commits:
        sent_ns = NEVER_NS if commit.is_fetched else commit.start_ns
        if commit.outcome is Outcome.ACKED and commit.end_ns is not None:
            yield commit.end_ns, commit.is_rewind, commit.offset, sent_ns
        if commit.is_rewind and commit.outcome is not Outcome.FAILED:
            yield commit.start_ns, True, commit.offset, sent_ns
