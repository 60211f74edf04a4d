"""Logs of masters, objects with their records, and which runs are merged, for random histories."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from penstock.base.ids import TopicPartition
from penstock.extents.layout import Entry
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.copies.effects import Built, MergePlan, Part, Plan, Replacement
from penstock.tier.metadata.manifest import Manifest
from tests.extents.files import key

KEYS = (key(1, 0), key(1, 1))

Records = list[tuple[int, int]]
"""(leader epoch, a number that no other record has), by offset from 0 on."""
Content = Mapping[TopicPartition, tuple[int, Records]]


class Master:
    """A master's log as its copier sees it. That of a deposed master does not change any more."""

    def __init__(self, leader_epoch: int, logs: Mapping[TopicPartition, Records]) -> None:
        self.leader_epoch = leader_epoch
        self.logs = {one: list(records) for one, records in logs.items()}
        self.confirmed = dict.fromkeys(KEYS, 0)
        self.log_starts = dict.fromkeys(KEYS, 0)
        self.part_records = 3
        self.local_starts = dict.fromkeys(KEYS, 0)
        """Up to where disks were freed of what the tier has."""

    def partitions(self) -> Sequence[TopicPartition]:
        return KEYS

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        records = self.logs[topic_partition]
        epochs: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(records):
            if not epochs or epochs[-1][0] != epoch:
                epochs.append((epoch, offset))
        return OwnLog(tuple(epochs), self.log_starts[topic_partition], len(records))

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        """Return objects of up to three records of each partition."""
        at = {one: max(ends[one], self.log_starts[one]) for one in KEYS}
        plans: list[Plan] = []
        while len(plans) < min(count_max, 3):
            parts = []
            for one in KEYS:
                end = min(at[one] + self.part_records, self.confirmed[one])
                if at[one] < end:
                    parts.append(Part(one, at[one], end))
                    at[one] = end
            if not parts:
                break
            plans.append(tuple(parts))
        return plans

    def content(self, plan: Plan) -> Content:
        return {one: (first, self.logs[one][first:end]) for one, first, end in plan}


class RandomMergers:
    """Has runs merged that follow each other, none of them across the local start."""

    def __init__(self, random: Random, master: Master) -> None:
        self.random = random
        self.master = master
        self.is_at_rest = False

    def plan(self, manifests: Mapping[TopicPartition, Manifest]) -> MergePlan:
        """As in Mergers: of each partition now and then, so that an object may have several."""
        if self.is_at_rest or self.random.random() < 0.2:
            return ()
        found = []
        for one in KEYS:
            runs = list(manifests[one].runs) if one in manifests else []
            if len(runs) >= 2 and self.random.random() < 0.8:
                at = self.random.randrange(len(runs) - 1)
                some = runs[at : at + self.random.randint(2, 4)]
                local_start = self.master.local_starts[one]
                if not some[0].first_offset < local_start < some[-1].end_offset:
                    found.append(Replacement(tuple(some)))
        return tuple(found)


def built(content: Content, merge: MergePlan = ()) -> Built:
    """Return what a writer tells of an object with these records."""
    entries, epochs = [], []
    generations = {one.part.topic_partition: one.generation for one in merge}
    for one, (first, records) in content.items():
        generation = generations.get(one, 0)
        numbers = Entry(*one, generation, first, first + len(records), *[0] * 11)
        entries.append(numbers)
        own: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(records, first):
            if not own or own[-1][0] != epoch:
                own.append((epoch, offset))
        epochs.append(tuple(own))
    return Built(tuple(entries), tuple(epochs), len(as_bytes(content)))


def as_bytes(content: Content) -> bytes:
    """Return an object; all with the same number of records have the same size."""
    rows = [
        f"{one.partition:04}{first + at:08}{epoch:08}{value:08}"
        for one, (first, records) in content.items()
        for at, (epoch, value) in enumerate(records)
    ]
    return "".join(rows).encode()


def rows_of(data: bytes) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield partition, offset and record of what `as_bytes` has made."""
    text = data.decode()
    for at in range(0, len(text), 28):
        partition, rest = int(text[at : at + 4]), text[at + 4 : at + 28]
        offset, epoch, value = (int(rest[begin : begin + 8]) for begin in (0, 8, 16))
        yield partition, offset, (epoch, value)
