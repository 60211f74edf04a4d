"""The two sides of an install keep to one request at a time, and end what has failed."""

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, ReplicaSetId
from penstock.replica.install import SlaveInstall
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    HaMessage,
    Manifest,
    ManifestWanted,
    Reason,
    Refused,
)
from penstock.storage.errors import BadInstall
from tests.replica.test_slave_session import EPOCH, SET, Leading
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import asked, export_of, fetch
from tests.storage.test_base_copy import replicated
from tests.storage.test_second_level_copies import Master, everything, slave


def wanted(position: int) -> BaseBytesWanted:
    return BaseBytesWanted(SET, EPOCH, position, 100)


def test_a_master_reads_one_piece_for_a_slave_at_a_time() -> None:
    leading = Leading()
    session = leading.streaming()
    while session.has_run:
        session.send_one()
    session.acknowledge(Acknowledge(SET, EPOCH, session.next_position))
    leading.log.checkpoint()
    leading.world.run()
    session.manifest_wanted(ManifestWanted(SET, EPOCH, newest_only=False))
    leading.world.run()
    assert isinstance(leading.sent[-1], Manifest)
    for position in (0, 100):
        session.base_bytes_wanted(wanted(position))
        leading.world.run()
        piece = leading.sent[-1]
        assert isinstance(piece, BaseBytes)
        assert (piece.position, len(piece.data)) == (position, 100)
    session.base_bytes_wanted(wanted(200))
    session.base_bytes_wanted(wanted(300))
    refusal = leading.sent[-1]
    assert isinstance(refusal, Refused)
    assert (refusal.reason, session.is_closed) == (Reason.NO_SESSION, True)
    leading.world.run()
    assert leading.sent[-1] is refusal


def test_a_copy_that_has_failed_is_ended_in_the_log_too() -> None:
    world, _, master, slave = replicated()
    export = export_of(world, master)
    sent: list[HaMessage] = []
    ended: list[PlatformError | None] = []
    set_id, epoch = ReplicaSetId(1), LeaderEpoch(1)
    install = SlaveInstall(slave, set_id, epoch, sent.append, ended.append)
    install.on_message(Manifest(set_id, epoch, export.manifest.encode()))
    world.run()
    (request,) = sent
    assert isinstance(request, BaseBytesWanted)
    install.on_message(BaseBytes(set_id, epoch, request.position, memoryview(b"")))
    (error,) = ended
    assert isinstance(error, BadInstall)
    with pytest.raises(BadInstall, match="no copy has begun"):
        asked(world, slave.install, request.position, memoryview(b"x"))


def test_a_slave_asks_for_all_files_of_the_second_level_too() -> None:
    master = Master()
    world, log = slave(FaultyDisk())
    export = export_of(master.world, master.log)
    sent: list[HaMessage] = []
    ended: list[PlatformError | None] = []
    set_id, epoch = ReplicaSetId(1), LeaderEpoch(1)
    install = SlaveInstall(log, set_id, epoch, sent.append, ended.append)
    install.on_message(Manifest(set_id, epoch, export.manifest.encode()))
    world.run()
    while not ended:
        request = sent.pop()
        assert isinstance(request, BaseBytesWanted)
        data = fetch(master.world, export, request.position, request.bytes_max)
        install.on_message(BaseBytes(set_id, epoch, request.position, data))
        world.run()
    assert ended == [None]
    assert everything(world, log) == master.everything()
