"""Which members have each task, in each role: assigned, or yet to be given up.

    key (role and subtopology) ─► number ─► members

An active task has one member; a standby task may have several, each in another process.

Source: Kafka, StreamsGroup (currentActiveTaskToProcessId, currentStandbyTaskToProcessIds).
"""

from collections.abc import Iterator

from penstock.groups.assigned.currents import Current

Holders = dict[bytes, dict[int, tuple[str, ...]]]


def held(current: Current | None) -> Iterator[tuple[bytes, frozenset[int]]]:
    """Yield what a member has, by key: a key may come twice."""
    if current is not None:
        yield from current.assigned.items()
        yield from current.revoking.items()


def unshare(
    own: set[bytes],
    into: Holders,
    original: Holders,
    *,
    before: Current | None,
    after: Current | None,
) -> None:
    """Copy what is about to change from the original, once for each key."""
    for key, _ in (*held(before), *held(after)):
        if key not in own:
            own.add(key)
            into[key] = {**original.get(key, {})}


def move(holders: Holders, member_id: str, before: Current | None, after: Current | None) -> None:
    """Note what a member has now instead of what it had."""
    for key, numbers in held(before):
        found = holders.get(key, {})
        for number in numbers:
            left = tuple(one for one in found.get(number, ()) if one != member_id)
            if left:
                found[number] = left
            else:
                found.pop(number, None)
    for key, numbers in held(after):
        found = holders.setdefault(key, {})
        for number in numbers:
            found[number] = (*found.get(number, ()), member_id)
    for key, _ in held(before):
        if not holders.get(key, True):
            del holders[key]
