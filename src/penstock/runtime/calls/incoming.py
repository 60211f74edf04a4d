"""Reads the frames of one end of a link, long ones in slices, and ends it for what is malformed.

Source: runtime/ha/live_link.py.
"""

from collections.abc import Callable, Generator

from penstock.coordinator.calls.asking import Message
from penstock.net.peer import PeerLink
from penstock.net.peer_slices import in_slices
from penstock.runtime.calls.messages import CALL_CODEC, CALL_VERSION, check, correlation_of, kind_of
from penstock.runtime.peer_codec import PeerMessageError, UnknownPeerMessage

Handle = Callable[[Message], None]
OnUnknown = Callable[[memoryview, int, str], None]
"""(frame, its correlation, what is wrong): a message that a later release knows."""


def read_frames(link: PeerLink, who: str, handle: Handle, on_unknown: OnUnknown) -> None:
    """Pass each message on the link to `handle`. `who` names the other end in the log."""

    def slices(frame: bytes) -> Generator[None, None, None]:
        try:
            message = yield from CALL_CODEC.slices(frame)
            check(message)
        except PeerMessageError as error:
            link.break_off(who, str(error))
            return
        yield
        handle(message)

    def on_frame(frame: memoryview) -> None:
        if CALL_CODEC.is_long(frame) and frame[1] == CALL_VERSION:
            in_slices(link, frame, slices(bytes(frame)))
            return
        try:
            try:
                message = CALL_CODEC.decode(frame)
            except UnknownPeerMessage as error:
                on_unknown(frame, correlation_of(frame), str(error))
                return
            check(message)
        except PeerMessageError as error:
            link.break_off(who, str(error))
            return
        handle(message)

    link.kind_of = kind_of
    link.on_frame = on_frame
