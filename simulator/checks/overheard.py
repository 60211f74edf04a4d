"""Observes every message between processes at the moment in which it is sent.

    sender (host) ─ receiver (process id) ─ message      of Raft, of replication, of sessions

A receiver relies on what a message states, and whether it is true can be checked on the simulated
disks at that moment. Observing has no side effects.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.base.ids import PeerId
from penstock.base.ports import Buffer
from penstock.replication.messages import HaMessage
from penstock.runtime.ha.live_link import LiveLink
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.transport import PeerTransport
from penstock.runtime.session.channel import LinkChannel, LocalChannel
from penstock.runtime.session.messages import SessionMessage
from simulator.checks.patched import is_trial
from simulator.kernel.process import current_process

OnSaid = Callable[[str, int, Any], None]
"""Gets the sender's host, the receiver's process id, and the message."""


@contextmanager
def overheard(on_said: OnSaid) -> Iterator[None]:
    """Hear everything for as long as this lasts; one run at a time in a process."""
    replicate, elect = LiveLink.send, PeerTransport.send
    report, report_inside = LinkChannel.send, LocalChannel.send

    def heard_replica(self: LiveLink, message: HaMessage) -> None:
        if self.link.is_open and not is_trial():
            on_said(current_process().host, self.peer_id, message)
        replicate(self, message)

    def heard_raft(self: PeerTransport, peer_id: PeerId, *frame: Buffer) -> None:
        on_said(current_process().host, peer_id, RAFT_CODEC.decode(memoryview(b"".join(frame))))
        elect(self, peer_id, *frame)

    def heard_session(self: LinkChannel, message: SessionMessage) -> None:
        if not is_trial():
            on_said(current_process().host, self.peer_id, message)
        report(self, message)

    def heard_inside(self: LocalChannel, message: SessionMessage) -> None:
        if not is_trial():
            on_said(current_process().host, self.peer_id, message)
        report_inside(self, message)

    LiveLink.send = heard_replica  # type: ignore[method-assign]
    PeerTransport.send = heard_raft  # type: ignore[method-assign]
    LinkChannel.send = heard_session  # type: ignore[method-assign]
    LocalChannel.send = heard_inside  # type: ignore[method-assign]
    try:
        yield
    finally:
        LiveLink.send = replicate  # type: ignore[method-assign]
        PeerTransport.send = elect  # type: ignore[method-assign]
        LinkChannel.send = report  # type: ignore[method-assign]
        LocalChannel.send = report_inside  # type: ignore[method-assign]
