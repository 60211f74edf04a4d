"""One merge of a copier: several runs of each of some partitions are to be one, in one object.

    planned ─ an id is reserved ─► built, put ─ it is in the store ─► replace is committed
                    └─ it is not, or the runs are not there any more ─► given up

It goes beside the copying, which does not wait for it. Its runs may go meanwhile, since retention
takes them: so they are compared when it is committed, and a merge of others is given up. What it
has put then is deleted as every object that nobody commits.

Source: docs/adr/0176.
"""

from collections.abc import Mapping
from itertools import islice

from penstock.base.ids import TopicPartition
from penstock.tier.copies.effects import MergePlan, Replacement, Upload
from penstock.tier.copies.uploads import Uploads
from penstock.tier.metadata.commands import Command, Expected, Written
from penstock.tier.metadata.manifest import EventGroup, Kind, Manifest, Run
from penstock.tier.names import ObjectName


class Merge:
    """See the module."""

    def __init__(self, plan: MergePlan) -> None:
        self._plan = plan
        self._uploads: Uploads | None = None
        self.asked: Command | None = None
        """What was asked for it last."""

    @property
    def uploads(self) -> Uploads | None:
        """Its only object, once that has an id."""
        return self._uploads

    @property
    def is_over(self) -> bool:
        """Whether it is known what became of its object."""
        return self._uploads is not None and self._uploads.are_over

    def begin(self, name: ObjectName, until_ms: int) -> list[Upload]:
        """Return what is to be put."""
        parts = tuple(one.part for one in self._plan)
        self._uploads = Uploads([name], [parts])
        return [one._replace(merge=self._plan) for one in self._uploads.begin(until_ms)]

    def is_within(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Whether runs end at this offset which are to be one from below it to above it."""
        parts = (one.part for one in self._plan)
        return any(key == topic_partition and first < offset < end for key, first, end in parts)

    def committable(
        self, manifests: Mapping[TopicPartition, Manifest]
    ) -> tuple[tuple[Written, ...], tuple[Expected, ...]]:
        """Return the object and the events of its partitions; nothing: it is given up."""
        assert self._uploads is not None
        for written, runs in self._uploads.landed():
            if all(_is_there(one, manifests) for one in self._plan):
                return (written,), tuple(_event(run, manifests) for run in runs)
        return (), ()


def _is_there(one: Replacement, manifests: Mapping[TopicPartition, Manifest]) -> bool:
    """Whether the very runs that were merged are still what a partition has."""
    manifest = manifests.get(one.part.topic_partition)
    if manifest is None:
        return False
    return one.runs == tuple(islice(manifest.runs_from(one.part.first_offset), len(one.runs)))


def _event(run: Run, manifests: Mapping[TopicPartition, Manifest]) -> Expected:
    key = run.entry.topic_partition
    return Expected(manifests[key].last_event_id, EventGroup(Kind.REPLACE, key, (run,)))
