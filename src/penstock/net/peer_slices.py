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
    turn, kind = link.turn, link.kind_of(frame)

    def go_on() -> None:
        if link.is_closed:
            slices.close()
            return
        has_room = True
        while has_room:
            began = turn.stopwatch()
            try:
                next(slices)
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
                    link.frames.note(kind, ended - began, ended)
        turn.wait(go_on, Sent.MORE)

    link.pause_reading()
    turn.wait(go_on, Sent.MORE)
