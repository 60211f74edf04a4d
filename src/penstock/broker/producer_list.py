"""The producers that partitions remember, as a list for an answer.

A log may remember a hundred thousand of them: four numbers are kept for each, and become an object
only while it is encoded.

Source: none.
"""

from array import array
from collections.abc import Iterable, Iterator

from penstock.base.ids import CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.broker.partitions import HostedPartition
from penstock.broker.turns import SLICE, Pace
from penstock.storage.index.producers import KnownProducer, known_producers

_FIELDS = len(KnownProducer._fields)


class ProducerList:
    """Producers in the order in which they were added."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, producer: KnownProducer) -> None:
        """Add one at the end."""
        self._numbers.extend(producer)

    def __len__(self) -> int:
        return len(self._numbers) // _FIELDS

    def __iter__(self) -> Iterator[KnownProducer]:
        numbers = self._numbers
        for at in range(0, len(numbers), _FIELDS):
            producer_id, epoch, sequence, last_ms, coordinator_epoch, first = numbers[
                at : at + _FIELDS
            ]
            yield KnownProducer(
                ProducerId(producer_id),
                ProducerEpoch(epoch),
                sequence,
                last_ms,
                CoordinatorEpoch(coordinator_epoch),
                first,
            )


async def list_producers(
    partitions: Iterable[HostedPartition], pace: Pace
) -> dict[HostedPartition, ProducerList]:
    """Return the producers of each partition, longest idle first."""
    listed = {hosted: ProducerList() for hosted in partitions}
    lists = {hosted.log.producers: producers for hosted, producers in listed.items()}
    for part in known_producers(lists):
        for table, producer in part:
            lists[table].add(producer)
        await pace.step(SLICE)
    return listed
