"""Check: each partition of a group has one owner, and replaced members do not commit.

An assignment counts from the answer to SyncGroup. A static member (`owner` is its instance id)
keeps its assignment under a new member id, and the old member id may not commit any more.
In a group whose coordinator assigns (KIP-848) `generation` is the epoch of the member.
Generation numbers are reused only after the group has expired: so nothing is compared over a time
without commits after which groups expire (`Rules.positions_kept_ns`), nor with a member that may
own nothing any more (`Owned.is_gone`), where groups change their kind.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from simulator.history.events import Commit, Outcome, Owned, Partition
from simulator.history.facts import Facts
from simulator.history.report import Anomaly, Finding


def owned_twice(owned: Sequence[Owned], kept_ns: int | None = None) -> Iterable[Finding]:
    """A partition was given to two members in one generation."""
    given: dict[tuple[str, int, Partition], Owned] = {}
    for one in sorted(owned, key=_at):
        if one.is_gone:
            given = {key: other for key, other in given.items() if not _is_same(one, other)}
        for partition in one.partitions:
            key = (one.group, one.generation, partition)
            other = given.get(key)
            if (
                other is not None
                and other.owner != one.owner
                and not _is_forgotten(other, one.at_ns, kept_ns)
            ):
                detail = (
                    f"group {one.group}, generation {one.generation}:"
                    f" {other.owner} and {one.owner} own it"
                )
                yield Finding(Anomaly.OWNED_TWICE, partition, detail)
            given[key] = one


def stale_commits(
    commits: Sequence[Commit], owned: Sequence[Owned], kept_ns: int | None = None
) -> Iterable[Finding]:
    """A commit succeeded whose member had been replaced when it was sent."""
    of_group: dict[str, list[Owned]] = defaultdict(list)
    for one in sorted(owned, key=_at):
        of_group[one.group].append(one)
    for commit in commits:
        if commit.is_fetched or commit.generation < 0 or commit.outcome is not Outcome.ACKED:
            continue
        before = [one for one in of_group[commit.group] if one.at_ns < commit.start_ns]
        for one in _replaced_by(commit, before):
            if not _is_forgotten(one, commit.start_ns, kept_ns):
                detail = (
                    f"group {commit.group}: {commit.member_id} of generation {commit.generation}"
                    f" committed after {one.member_id} was given generation {one.generation}"
                )
                yield Finding(Anomaly.STALE_COMMIT, commit.partition, detail)
                break


def _replaced_by(commit: Commit, before: list[Owned]) -> Iterable[Owned]:
    """Yield what shows that this member was none any more, or had not this partition any more.

    Where the coordinator assigns, members are in different epochs at a time: what counts is who was
    given the partition last.
    """
    if before and before[-1].is_by_epoch:
        given = [one for one in before if commit.partition in one.partitions]
        if given and given[-1].owner != commit.owner:
            yield given[-1]
        return
    yield from (one for one in before if one.generation > commit.generation)
    same = [one for one in before if one.owner == commit.owner]
    if same and same[-1].member_id != commit.member_id:
        yield same[-1]


def unread(facts: Facts, group: str, readers: Collection[str]) -> Iterable[Finding]:
    """Members have read all that is acknowledged and kept, each what was its own at the time."""
    seen = {
        offset for poll in facts.polls if poll.consumer in readers for offset, _ in poll.records
    }
    for offset, _, _, value in facts.acked:
        if offset >= facts.start_offset and offset not in seen:
            detail = f"no member of {group} read {value!r} at {offset}"
            yield Finding(Anomaly.GROUP_SKIP, facts.partition, detail)
            return  # one finding is enough


def _is_same(one: Owned, other: Owned) -> bool:
    return (one.group, one.owner) == (other.group, other.owner)


def _is_forgotten(owned: Owned, at_ns: int, kept_ns: int | None) -> bool:
    return kept_ns is not None and at_ns - owned.at_ns >= kept_ns


def _at(owned: Owned) -> int:
    return owned.at_ns
