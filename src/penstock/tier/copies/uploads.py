"""The objects of one round: which are in the store, which are unknown, which were given up.

    WAITING ─ put answers ─────────────────────────────► THERE
       └─ it fails, however ─► UNKNOWN ─ size is right ─► THERE
                                  └─ not there, or another size ─► GIVEN_UP

An id that was given up is not put again: the first put may still land.

Source: docs/adr/0117. S3 answered 4 in 10 refusals of large bodies by a broken connection.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.tier.copies.effects import Built, Look, Plan, Upload
from penstock.tier.metadata.commands import Expected, Written
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run
from penstock.tier.names import ObjectName


class Progress(Enum):
    """How far an upload is."""

    WAITING = "waiting"
    UNKNOWN = "unknown"
    THERE = "there"
    GIVEN_UP = "given up"


class _Transfer:
    """One object of a round."""

    def __init__(self, name: ObjectName, plan: Plan) -> None:
        self.name = name
        self.plan = plan
        self.progress = Progress.WAITING
        self.built: Built | None = None

    @property
    def is_over(self) -> bool:
        """Whether it is known what became of it."""
        return self.progress in {Progress.THERE, Progress.GIVEN_UP}

    def runs(self) -> list[Run]:
        """Return its runs as they are to be committed."""
        assert self.built is not None
        pairs = zip(self.built.entries, self.built.epochs, strict=True)
        return [Run(self.name, entry, epochs, entry.end_offset) for entry, epochs in pairs]


class Uploads:
    """The transfers of one round, in the order of their offsets."""

    def __init__(self, names: Sequence[ObjectName], plans: Sequence[Plan]) -> None:
        self._transfers = {
            name.object_id: _Transfer(name, plan) for name, plan in zip(names, plans, strict=True)
        }
        self._begins: dict[TopicPartition, int] = {}
        """Where the round's first part of each partition begins, whatever became of it."""
        for part in (part for plan in plans for part in plan):
            self._begins.setdefault(part.topic_partition, part.first_offset)

    @property
    def are_over(self) -> bool:
        """Whether it is known of each object what became of it."""
        return all(one.is_over for one in self._transfers.values())

    def begin(self, until_ms: int) -> list[Upload]:
        """Return all of them."""
        return [Upload(one.name, one.plan, until_ms) for one in self._transfers.values()]

    def has(self, object_id: int) -> bool:
        """Whether an object is of this round; one of a round that was broken off is not."""
        return object_id in self._transfers

    def put(self, object_id: int, built: Built) -> None:
        """Take note that the store has answered that an object is there."""
        transfer = self._built(object_id, built)
        transfer.progress = Progress.THERE

    def failed(self, object_id: int, built: Built | None) -> list[Look]:
        """Take note of a put that failed; without `built` none was begun."""
        if built is None:
            self._transfers[object_id].progress = Progress.GIVEN_UP
            return []
        transfer = self._built(object_id, built)
        transfer.progress = Progress.UNKNOWN
        return [Look(transfer.name)]

    def _built(self, object_id: int, built: Built) -> _Transfer:
        transfer = self._transfers[object_id]
        invariant(not transfer.is_over, "an upload that ends twice", name=transfer.name)
        made = tuple(
            (one.topic_partition, one.first_offset, one.end_offset) for one in built.entries
        )
        invariant(made == transfer.plan, "an object that is not as planned", made=made)
        transfer.built = built
        return transfer

    def looked(self, object_id: int, object_bytes: int | None) -> None:
        """Take note of an object's size in the store; None: it is not there."""
        transfer = self._transfers[object_id]
        assert transfer.built is not None
        is_there = object_bytes == transfer.built.object_bytes
        transfer.progress = Progress.THERE if is_there else Progress.GIVEN_UP

    def committable(
        self, manifests: Mapping[TopicPartition, Manifest]
    ) -> tuple[tuple[Written, ...], tuple[Expected, ...]]:
        """Return the objects that can be committed, and the events of all their partitions.

        An object goes with all of its runs or not at all: one behind an object that was given up
        can not follow.
        """
        ends: dict[TopicPartition, int] = {}
        runs: dict[TopicPartition, list[Run]] = {}
        written = []
        for transfer in self._there():
            own = transfer.runs()
            if not all(self._follows(run, ends, manifests) for run in own):
                continue
            for run in own:
                ends[run.entry.topic_partition] = run.end_offset
                runs.setdefault(run.entry.topic_partition, []).append(run)
            assert transfer.built is not None
            written.append(Written(transfer.name.object_id, transfer.built.object_bytes))
        events = [
            Expected(manifests[key].last_event_id, EventGroup(Kind.COPY, key, tuple(of)))
            for key, of in runs.items()
        ]
        return tuple(written), tuple(events)

    def landed(self) -> Iterator[tuple[Written, list[Run]]]:
        """Yield the objects that are in the store, each with its runs."""
        for transfer in self._there():
            assert transfer.built is not None
            yield Written(transfer.name.object_id, transfer.built.object_bytes), transfer.runs()

    def _there(self) -> Iterator[_Transfer]:
        yield from (one for one in self._transfers.values() if one.progress is Progress.THERE)

    def _follows(
        self,
        run: Run,
        ends: Mapping[TopicPartition, int],
        manifests: Mapping[TopicPartition, Manifest],
    ) -> bool:
        """Whether nothing that was to be copied lies between a run and what is before it."""
        key = run.entry.topic_partition
        manifest = manifests[key]
        if key not in ends and not manifest.runs:
            return run.first_offset == self._begins[key] and run.end_offset > manifest.end_offset
        return run.first_offset == ends.get(key, manifest.end_offset)
