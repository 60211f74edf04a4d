"""Handling a long frame of a peer in slices: as many in one turn of the loop as the share permits.

    link   frame ─► slice, slice │ next turn: slice, ... │ the link's next frame
    others          heartbeats, clients, other links

The link is not read until the last slice, so that its order is kept.
"""

from collections.abc import Generator

from penstock.net.peer_link import PeerLink
from penstock.net.peer_measure import NOTED_SECONDS
from penstock.net.turn_share import Sent


def in_slices(link: PeerLink, frame: memoryview, slices: Generator[None, None, None]) -> None:
    """Run a generator, one slice per step, from the next turn on; a closed link ends it.

    To be called while the link's `frame` is handled; the slices read what `link.keep` returns.
    """
    link.frames.note_long(len(frame))
    link.pause_reading()
    link.turn.wait(_Slices(link, link.kind_of(frame), slices).go_on, Sent.MORE)


class _Slices:
    """The slices of one frame.

    Only who calls `go_on` next refers to it: a function that waits for itself would be a cycle of
    references, and stay until the next full collection.
    """

    __slots__ = ("_kind", "_link", "_slices")

    def __init__(self, link: PeerLink, kind: str, slices: Generator[None, None, None]) -> None:
        self._link, self._kind, self._slices = link, kind, slices

    def go_on(self) -> None:
        """Run as many slices as this turn has room for, and wait for another turn."""
        link, turn = self._link, self._link.turn
        if link.is_closed:
            self._slices.close()
            return
        has_room = True
        while has_room:
            began = turn.stopwatch()
            try:
                next(self._slices)
            except StopIteration:
                link.resume_reading()
                return
            except BaseException:
                link.abort("a frame could not be handled")
                raise
            finally:
                ended = turn.stopwatch()
                has_room = turn.spend(ended - began)
                if ended - began >= NOTED_SECONDS:
                    link.frames.note(self._kind, ended - began, ended)
        turn.wait(self.go_on, Sent.MORE)
