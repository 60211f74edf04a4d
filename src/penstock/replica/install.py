"""The slave's side of an install: the manifest of a base, then its raw bytes.

    Manifest ─► begin_install ─► BaseBytesWanted ─► BaseBytes ─► install ─┐
                                   ▲──────────────────────────────────────┘ until the copy is
                                                          ─► finish_install      complete

One BaseBytes is in flight at a time, so that a copy takes the memory of one, and a lost link costs
one: what was copied stays on disk, and the next begin_install continues after it. The old log is
kept until the copy is complete.

Source: Raft paper 7 for the idea. What is copied is in storage (base_manifest.py, install.py).
"""

from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, ReplicaSetId
from penstock.base.invariant import invariant
from penstock.replication.messages import (
    BASE_BYTES_MAX,
    BaseBytes,
    BaseBytesWanted,
    HaMessage,
    Manifest,
)
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.errors import BadInstall
from penstock.storage.replicate.base_manifest import BaseManifest

Done = Callable[[PlatformError | None], None]


class SlaveInstall:
    """One copy; `done(error)` is called once, unless it is abandoned before."""

    def __init__(
        self,
        own_log: SetLog,
        replica_set_id: ReplicaSetId,
        leader_epoch: LeaderEpoch,
        send: Callable[[HaMessage], None],
        done: Done,
    ) -> None:
        self.is_finishing = False
        self._log = own_log
        self._replica_set_id = replica_set_id
        self._leader_epoch = leader_epoch
        self._send = send
        self._done = done
        self._manifest: BaseManifest | None = None
        self._wanted = -1
        self._is_over = False

    def on_message(self, message: Manifest | BaseBytes) -> None:
        """Process a manifest or bytes from the master."""
        match message:
            case Manifest():
                self._begin(message)
            case BaseBytes():
                self._copy(message)

    def _begin(self, message: Manifest) -> None:
        if self._manifest is not None:
            return
        try:
            self._manifest = BaseManifest.decode(bytes(message.encoded))
        except PlatformError as error:
            self._end(error)
            return
        self._log.begin_install(self._manifest, self._ask_from)

    def _copy(self, message: BaseBytes) -> None:
        """Write the raw bytes that were requested; ignore any others."""
        if message.position != self._wanted or self._is_over:
            return
        self._wanted = -1
        if not message.data:
            self._end(BadInstall("the master sent no bytes"))
            return
        kept = memoryview(bytes(message.data))
        self._log.install(message.position, kept, partial(self._written, kept))

    def _written(self, _: memoryview, position: int, error: PlatformError | None) -> None:
        self._ask_from(position, error)

    def _ask_from(self, position: int, error: PlatformError | None) -> None:
        """Ask for the bytes from `position` on; finish if that is the end of the base."""
        if self._is_over:
            return
        if error is not None:
            self._end(error)
        elif self._manifest is not None and position >= self._manifest.end_place:
            end = self._manifest.end_place
            invariant(position == end, "a copy ends where its base does", at=position, end=end)
            self.is_finishing = True
            self._log.finish_install(self._finished)
        else:
            self._wanted = position
            set_id, epoch = self._replica_set_id, self._leader_epoch
            self._send(BaseBytesWanted(set_id, epoch, position, BASE_BYTES_MAX))

    def _finished(self, error: PlatformError | None) -> None:
        self.is_finishing = False
        self._end(error)

    def _end(self, error: PlatformError | None) -> None:
        if not self._is_over:
            self._is_over = True
            if error is not None:
                self._log.abandon_install()
            self._done(error)

    def abandon(self) -> None:
        """Stop; the bytes copied so far are kept for the next attempt."""
        assert not self.is_finishing, "the swap of logs cannot be interrupted"
        if not self._is_over:
            self._is_over = True
            self._log.abandon_install()
