"""The master's side of an install: serves a base, the manifest first, then the bytes asked for.

The slave asks for one BaseBytes after another, so that a copy takes the memory of one and continues
after a lost link where it stopped. A request waits for its turn where copies have a rate
(copy_turns.py); the files are kept meanwhile.

Source: as install.py, which is the other side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, LeaderEpoch, ReplicaSetId
from penstock.base.invariant import invariant
from penstock.replica.copy_turns import Copying, CopyTurns
from penstock.replication.messages import (
    BASE_BYTES_MAX,
    BaseBytes,
    BaseBytesWanted,
    HaMessage,
    Manifest,
    Reason,
)
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.replicate.base_export import BaseExport

PACED_BYTES_MAX = 256 << 10
"""Of one message where copies have a rate: a larger one would hold up all other copies for long."""

log = logging.getLogger(__name__)


class Receiver(Copying, Protocol):
    """The session of the installing slave (slave_session.py)."""

    replica_set_id: ReplicaSetId
    broker_id: BrokerId
    leader_epoch: LeaderEpoch

    def refuse(self, reason: Reason, newest_epoch: LeaderEpoch, text: str = "") -> None: ...


class ServedBase:
    """One base that one slave copies. Its files are kept until `close`."""

    def __init__(
        self,
        own_log: SetLog,
        session: Receiver,
        send: Callable[[HaMessage], None],
        turns: CopyTurns,
    ) -> None:
        self._log = own_log
        self._session = session
        self._send = send
        self._turns = turns
        self._export: BaseExport | None = None
        self._wanted: BaseBytesWanted | None = None
        """The request that waits for its turn."""
        self._is_reading = False
        self._is_closed = False

    def begin(self, *, is_newest_only: bool) -> None:
        """Have the log export a base; its manifest is sent when it is ready."""
        try:
            self._log.export_base(self._exported, newest_only=is_newest_only)
        except PlatformError as error:
            self._failed(error)

    def _exported(self, export: BaseExport | None, error: PlatformError | None) -> None:
        if self._is_closed:
            if export is not None:
                export.release()
            return
        if export is None:
            assert error is not None
            self._failed(error)
            return
        self._export = export
        session, manifest = self._session, export.manifest
        log.info(
            "set=%d slave=%d installs positions=%d..%d bytes=%d",
            session.replica_set_id,
            session.broker_id,
            manifest.start_position,
            manifest.position,
            manifest.total_bytes,
        )
        self._send(Manifest(session.replica_set_id, session.leader_epoch, manifest.encode()))

    def send_bytes(self, message: BaseBytesWanted) -> None:
        """Read bytes off the loop and send them.

        A position outside the manifest ends the session, and so does a request before the
        one before is answered: a slave asks for one at a time, and the master keeps no more.
        """
        if self._export is None:
            self._session.refuse(Reason.NO_SESSION, self._session.leader_epoch)
            return
        position = message.position
        if not self._export.has(position):
            text = f"position {position} is not in the manifest"
            self._session.refuse(Reason.NO_SESSION, self._session.leader_epoch, text)
            return
        if self._is_reading:
            text = "bytes were requested before the last ones were sent"
            self._session.refuse(Reason.NO_SESSION, self._session.leader_epoch, text)
            return
        invariant(self._wanted is None, "one request waits at a time", at=position)
        self._is_reading = True
        self._wanted = message
        self.take_turn()

    def take_turn(self) -> None:
        """Read what was requested last, unless the session has to rest before."""
        message, export = self._wanted, self._export
        if message is None or export is None:
            return
        if not self._turns.may_send(self._session):
            export.keep()
            return
        self._wanted = None
        is_paced = self._turns.pace.bytes_per_second > 0 and self._session.may_wait
        size = min(max(message.bytes_max, 1), PACED_BYTES_MAX if is_paced else BASE_BYTES_MAX)
        export.read(message.position, size, partial(self._read, message.position))

    def _read(self, position: int, data: memoryview | None, error: PlatformError | None) -> None:
        self._is_reading = False
        if self._is_closed:
            return
        if data is None:
            assert error is not None
            self._failed(error)
            return
        session = self._session
        if session.may_wait:
            self._turns.pace.sent(len(data))
        self._send(BaseBytes(session.replica_set_id, session.leader_epoch, position, data))

    def _failed(self, error: PlatformError) -> None:
        session = self._session
        log.warning("set=%d no base: %s", session.replica_set_id, error)
        session.refuse(Reason.NOT_READY, session.leader_epoch, str(error))

    def close(self) -> None:
        """Release the files of the base."""
        self._is_closed = True
        self._wanted = None
        if self._export is not None:
            self._export.release()
            self._export = None
