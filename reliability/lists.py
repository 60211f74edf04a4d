"""What is wrong with transactions that append their names to lists, one list for each partition?

Every transaction appends its name to some lists, after having read what others had committed. From
what the clients heard, and from the lists as they are read in the end:

| kind | meaning |
|---|---|
| lost | a committed transaction is missing |
| aborted read | an aborted one, or one that nobody asked to commit, is read (G1a) |
| torn | it is in some of its lists, and not in all (G1b) |
| duplicate | it is twice in a list |
| reordered | of two transactions of one id the later one stands first |
| changed | who read along has not read what the list is in the end |
| cycle | transactions that have read each other, also by way of others (G1c) |

In which order transactions of different ids stand is not judged: Kafka promises none, and two that
are open together may stand in either order in each partition (G0 is legal).

Source: Kingsbury and Alvaro, "Elle" (VLDB 2020); Jepsen's workload for Kafka.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"

Lists = Mapping[int, Sequence[str]]
"""By partition the names, in the order of the log."""


@dataclass(slots=True)
class Transaction:
    """One transaction, as its client knows it."""

    name: str
    writer: str
    number: int
    """Rises with the transactions of a writer."""
    places: tuple[int, ...]
    outcome: str = ABORTED
    """Nobody has asked to commit it yet."""
    read: tuple[str, ...] = ()
    """What its writer has read since its previous transaction."""


class Anomaly(NamedTuple):
    """Something that must not be."""

    kind: str
    text: str


def judge_lists(
    transactions: Mapping[str, Transaction], lists: Lists, read_along: Lists
) -> list[Anomaly]:
    """Return what is wrong; `lists` is what is read of every partition in the end."""
    found = [*_one_by_one(transactions, lists), *_order(transactions, lists)]
    found += _changes(lists, read_along)
    return found + _cycles(transactions)


def _one_by_one(transactions: Mapping[str, Transaction], lists: Lists) -> Iterator[Anomaly]:
    where: dict[str, Counter[int]] = defaultdict(Counter)
    for place, names in lists.items():
        for name in names:
            where[name][place] += 1
    for name in where.keys() - transactions.keys():
        yield Anomaly("aborted read", f"{name} is of nobody")
    for each in transactions.values():
        counts = where.get(each.name, Counter())
        told = f"{each.name} of {each.places} ({each.outcome}) is in {dict(counts)}"
        if any(count > 1 for count in counts.values()):
            yield Anomaly("duplicate", told)
        if counts and each.outcome == ABORTED:
            yield Anomaly("aborted read", told)
        elif counts and set(counts) != set(each.places):
            yield Anomaly("torn", told)
        elif not counts and each.outcome == COMMITTED:
            yield Anomaly("lost", told)


def _order(transactions: Mapping[str, Transaction], lists: Lists) -> Iterator[Anomaly]:
    for place, names in lists.items():
        newest: dict[str, Transaction] = {}
        for name in dict.fromkeys(names):
            each = transactions.get(name)
            if each is None:
                continue
            before = newest.setdefault(each.writer, each)
            if before.number > each.number:
                yield Anomaly("reordered", f"{each.name} follows {before.name} in {place}")
            else:
                newest[each.writer] = each


def _changes(lists: Lists, read_along: Lists) -> Iterator[Anomaly]:
    for place, names in read_along.items():
        whole = lists.get(place, ())
        for at, name in enumerate(names):
            if at >= len(whole) or whole[at] != name:
                now = whole[at] if at < len(whole) else "nothing"
                yield Anomaly("changed", f"{name} was read as {at} of {place}, where {now} is")
                break


def _cycles(transactions: Mapping[str, Transaction]) -> list[Anomaly]:
    graph: TopologicalSorter[str] = TopologicalSorter()
    previous: dict[str, str] = {}
    for each in transactions.values():
        graph.add(each.name, *(name for name in each.read if name != each.name))
        if each.writer in previous:
            graph.add(each.name, previous[each.writer])
        previous[each.writer] = each.name
        if each.name in each.read:
            return [Anomaly("cycle", f"{each.name} has read itself before it wrote")]
    try:
        graph.prepare()
    except CycleError as error:
        return [Anomaly("cycle", " -> ".join(error.args[1]))]
    return []
