"""The cluster's image as the bytes of a snapshot, made a slice in each turn of the loop.

Thousands of topics with settings of their own are hundreds of milliseconds. What is written is the
image of the moment in which it began: entries that are applied meanwhile are not in it, and stay in
the log behind the snapshot.

Source: KIP-630. A small image is whole after its first slice, in the same call.
"""

import asyncio
from collections.abc import Callable

from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.record_codec import encode_each
from penstock.controller.metadata.snapshot import each_snapshot_record

SLICE_RECORDS = 250
SLICE_BYTES = 64 << 10
"""Of one slice, and one record more: one to two milliseconds."""


class ImageWriting:
    """One snapshot. `done` gets its bytes once, within `go_on` or from a later turn of the loop."""

    def __init__(self, image: ClusterImage, done: Callable[[bytes], None]) -> None:
        self._done = done
        self._parts = encode_each(each_snapshot_record(image))
        self._written = bytearray()
        self.is_over = False

    def write_all(self) -> None:
        """Write what is left now."""
        for part in self._parts:
            self._written += part
        self._end()

    def go_on(self) -> None:
        """Write a slice now, and the next one in another turn."""
        if self.is_over:
            return
        end = len(self._written) + SLICE_BYTES
        for count, part in enumerate(self._parts, start=1):
            self._written += part
            if count == SLICE_RECORDS or len(self._written) >= end:
                asyncio.get_running_loop().call_soon(self.go_on)
                return
        self._end()

    def cancel(self) -> None:
        """Tell nobody: the state has been replaced."""
        self.is_over = True

    def _end(self) -> None:
        self.is_over = True
        self._done(bytes(self._written))
