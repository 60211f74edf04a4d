"""A snapshot installed over the cluster's image, a slice in each turn of the loop.

A process that was away gets all topics at once, and its broker must go on serving meanwhile. The
snapshot is decoded and replayed into a new image, slice by slice; readers see the old one until
the last turn, which puts the new one in its place and tells the listeners the difference.

Source: KRaft's MetadataLoader builds the image beside the old one too. A small snapshot is
installed in the call that begins it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from penstock.base.ports import Buffer
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.install import Installation
from penstock.controller.metadata.record_codec import decode_each
from penstock.controller.metadata.records import MetadataRecord, TopicCreated

SLICE_RECORDS = 50
"""Records of a slice, and those that belong to the last topic: about two milliseconds."""


class ImageInstalling:
    """One snapshot. `finish` gets it once, when all is read: within `go_on` or in a later turn."""

    def __init__(
        self, image: ClusterImage, snapshot: Buffer, finish: Callable[[Installation], None]
    ) -> None:
        self._finish = finish
        self._installation = Installation(image)
        self._slices = slices(decode_each(snapshot))
        self._part = next(self._slices, None)
        self._is_over = False

    def go_on(self) -> None:
        """Read a slice now, and the next one in another turn. Raises: as Installation.take."""
        if self._is_over:
            return
        if self._part is not None:
            self._installation.take(self._part)
            self._part = next(self._slices, None)
        if self._part is not None:
            asyncio.get_running_loop().call_soon(self.go_on)
            return
        self._is_over = True
        self._finish(self._installation)

    def cancel(self) -> None:
        """Leave the image as it is, and tell nobody."""
        self._is_over = True


def slices(records: Iterable[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    """Yield `records` in parts that each end before a topic: the records of one stay together."""
    part: list[MetadataRecord] = []
    for record in records:
        if len(part) >= SLICE_RECORDS and isinstance(record, TopicCreated):
            yield part
            part = []
        part.append(record)
    yield part
