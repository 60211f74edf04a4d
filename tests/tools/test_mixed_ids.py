"""Ids, epochs and offsets that are mixed up do not pass the type check.

Each line of SOURCE that ends in `# mixed` has one deliberate mistake; mypy has to find all of them
and nothing else.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = """
from penstock.base.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionId, Position
from penstock.base.ids import ControllerEpoch, PeerId, RequestId
from penstock.base.ids import ProducerId, ReplicaId, ReplicaSetId, SyncStateSetEpoch, TopicId
from penstock.broker.fetch.watermarks import End
from penstock.controller.commands import command as c
from penstock.controller.metadata import records as r
from penstock.controller.metadata.partition_images import PartitionImage
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import BrokerImage, ReplicaSetImage
from penstock.controller.replicated_log import Leadership, MachineIndex, ReplicatedLog
from penstock.controller.session import HeartbeatAnswer, ProbedSet, TransferRequest
from penstock.frames.run import Run
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.log import RaftLog
from penstock.raft.messages import TimeoutNow
from penstock.raft.raft import Raft
from penstock.raft.ready import HardState
from penstock.replica.master_set import MasterSet
from penstock.replica.purgatory import AckQueue, Waiting
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.alignment import Truncate
from penstock.replication.confirm import ConfirmTracker, Membership
from penstock.replication.epochs import EpochHistory
from penstock.replication.sync_state import Change, Joining, Recorded
from penstock.replication.messages import Acknowledge, Begin, Goodbye, LogRun
from penstock.runtime.raft.numbering import Numbering
from penstock.runtime.raft.storage import RaftStorage
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.transactions import Begun, PartitionTransactions
from penstock.storage.stores.port import EpochEnd, Held

broker, log, set_id = BrokerId(1), ReplicaId(2), ReplicaSetId(3)
epoch, set_epoch, broker_epoch = LeaderEpoch(4), SyncStateSetEpoch(5), BrokerEpoch(6)
position, offset, partition = Position(7), Offset(8), PartitionId(9)
topic = TopicId(bytes(16))
term, index, peer = Term(10), RaftIndex(11), PeerId(12)
machine_index, controller_epoch = MachineIndex(13), ControllerEpoch(14)
request, producer, data = RequestId(15), ProducerId(16), memoryview(b"")
tracker = ConfirmTracker(Membership(replicas=(broker,), committed=(broker,)), position)

Joining(broker, log, broker_epoch)
Joining(log, broker, broker_epoch)  # mixed
Joining(broker, log, epoch)  # mixed
Change(epoch, set_epoch, (broker,))
Change(set_epoch, epoch, (broker,))  # mixed
Truncate(position, epoch)
Truncate(offset, epoch)  # mixed
Truncate(position, position)  # mixed
PartitionImage(partition, set_id)
PartitionImage(set_id, partition)  # mixed
EpochHistory().begin(epoch, position)
EpochHistory().begin(epoch, offset)  # mixed
tracker.acknowledge(broker, position)
tracker.acknowledge(position, broker)  # mixed
r.MastershipBegun(replica_set_id=set_id, master=broker, leader_epoch=epoch)
r.MastershipBegun(replica_set_id=broker, master=broker, leader_epoch=epoch)  # mixed
r.MastershipBegun(replica_set_id=set_id, master=log, leader_epoch=epoch)  # mixed
r.MastershipBegun(replica_set_id=set_id, master=broker, leader_epoch=broker_epoch)  # mixed
r.ReplicaRegistered(replica_set_id=set_id, broker_id=broker, replica_id=log, log_id="a")
r.ReplicaRegistered(replica_set_id=set_id, broker_id=broker, replica_id=broker, log_id="a")  # mixed
r.SyncStateSetChanged(replica_set_id=set_id, sync_state_set=(), sync_state_set_epoch=set_epoch)
r.SyncStateSetChanged(replica_set_id=set_id, sync_state_set=(), sync_state_set_epoch=epoch)  # mixed
r.PartitionsAdded(topic_id=topic, first_partition=partition, replica_set_ids=(set_id,))
r.PartitionsAdded(topic_id=topic, first_partition=partition, replica_set_ids=(partition,))  # mixed


def images(image: ReplicaSetImage, one: BrokerImage, own_log: SetLog) -> None:
    image.replica_ids[broker]
    image.replica_ids[log]  # mixed
    image.may_have_lost(epoch)
    image.may_have_lost(one.broker_epoch)  # mixed
    image.may_have_lost(image.sync_state_set_epoch)  # mixed
    Recorded(image.replicas, image.sync_state_set, image.sync_state_set_epoch, image.policy)
    Recorded(image.replicas, image.sync_state_set, image.leader_epoch, image.policy)  # mixed
    own_log.begin_epoch(image.leader_epoch)
    own_log.begin_epoch(image.sync_state_set_epoch)  # mixed


c.NewMastership(
    replica_set_id=set_id, master=broker, cause=Cause.RETURN,
    leader_epoch=epoch, sync_state_set_epoch=set_epoch,
)
c.NewMastership(
    replica_set_id=set_id, master=broker, cause=Cause.RETURN,
    leader_epoch=set_epoch,  # mixed
    sync_state_set_epoch=epoch,  # mixed
)
c.AddReplica(replica_set_id=set_id, broker_id=broker)
c.AddReplica(replica_set_id=broker, broker_id=set_id)  # mixed
c.FenceBrokers(brokers=((broker, broker_epoch),))
c.FenceBrokers(brokers=((broker, epoch),))  # mixed
c.RegisterReplica(replica_set_id=set_id, broker_id=broker, log_id="a")
c.RegisterReplica(replica_set_id=set_id, broker_id=log, log_id="a")  # mixed
ProbedSet(replica_set_id=set_id, leader_epoch=epoch)
ProbedSet(replica_set_id=set_id, leader_epoch=set_epoch)  # mixed
TransferRequest(request_id=request, replica_set_id=set_id, target=broker)
TransferRequest(request_id=request, replica_set_id=broker, target=set_id)  # mixed
Goodbye(set_id, epoch)
Goodbye(epoch, set_id)  # mixed
Entry(index=index, term=term)
Entry(index=term, term=index)  # mixed
HardState(term=term, voted_for=peer, commit_index=index)
HardState(term=term, voted_for=broker, commit_index=index)  # mixed
HardState(term=index, voted_for=peer, commit_index=index)  # mixed
TimeoutNow(sender=peer, term=term)
TimeoutNow(sender=peer, term=controller_epoch)  # mixed
Leadership(peer, controller_epoch, is_leader=True)
Leadership(peer, term, is_leader=True)  # mixed
Leadership(broker, controller_epoch, is_leader=True)  # mixed
HeartbeatAnswer(active_id=peer, controller_epoch=controller_epoch, applied_index=machine_index)
HeartbeatAnswer(active_id=peer, controller_epoch=epoch, applied_index=machine_index)  # mixed
HeartbeatAnswer(active_id=peer, controller_epoch=controller_epoch, applied_index=index)  # mixed


def logs(
    core: Raft, log: RaftLog, port: ReplicatedLog, files: RaftStorage, both: Numbering
) -> None:
    core.term_at(core.commit_index)
    core.term_at(core.term)  # mixed
    core.transfer(core.leader_id)
    core.transfer(core.last_index)  # mixed
    log.is_up_to_date(log.last_index, log.last_term)
    log.is_up_to_date(log.last_term, log.last_index)  # mixed
    log.commit_to(both.raft_index)
    log.commit_to(both.machine_index)  # mixed
    port.trim(both.machine_index, b"")
    port.trim(both.raft_index, b"")  # mixed
    files.mark_commit(index, term)
    files.mark_commit(term, index)  # mixed
    both.raft_index_of(machine_index)
    both.raft_index_of(index)  # mixed


Begun(offset, position)
Begun(position, offset)  # mixed
End(offset, position)
End(position, offset)  # mixed
Held(offset, offset)
Held(offset, position)  # mixed
EpochEnd(epoch, offset)
EpochEnd(epoch, position)  # mixed
EpochEnd(offset, epoch)  # mixed
Run(epoch, position, position, position, data)
Run(epoch, offset, position, position, data)  # mixed
Run(position, epoch, position, position, data)  # mixed
Begin(set_id, epoch, position, position)
Begin(set_id, epoch, offset, position)  # mixed
Acknowledge(set_id, epoch, position)
Acknowledge(set_id, epoch, offset)  # mixed
LogRun(set_id, epoch, epoch, position, position, position, position, data)
LogRun(set_id, epoch, epoch, offset, position, position, position, data)  # mixed
LogRun(set_id, epoch, position, epoch, position, position, position, data)  # mixed


def of_logs(own_log: SetLog, part: PartitionLog, undecided: PartitionTransactions) -> None:
    own_log.read(part, part.log_start_offset, 1, own_log.durable_position)
    own_log.read(part, own_log.durable_position, 1, part.log_end_offset)  # mixed
    own_log.read(part, part.log_start_offset, 1, part.log_end_offset)  # mixed
    own_log.known_offset_at(part, own_log.confirmed_position)
    own_log.known_offset_at(part, part.log_end_offset)  # mixed
    own_log.find_offset_at(part, part.log_end_offset, print)  # mixed
    own_log.find_epoch_end(part, own_log.leader_epoch, print)
    own_log.find_epoch_end(part, own_log.end_position, print)  # mixed
    own_log.delete_records(part, part.log_end_offset)
    own_log.delete_records(part, own_log.end_position)  # mixed
    own_log.truncate(own_log.epochs[-1][1], print)
    own_log.truncate(own_log.epochs[-1][0], print)  # mixed
    own_log.truncate(part.log_end_offset, print)  # mixed
    own_log.note_confirmed(part.last_end_position)
    own_log.note_confirmed(part.log_end_offset)  # mixed
    own_log.read_run(own_log.start_position, 1, own_log.end_position)
    own_log.read_run(part.log_start_offset, 1, own_log.end_position)  # mixed
    own_log.transactions.first_unstable(part, own_log.confirmed_position)
    own_log.transactions.first_unstable(part, part.log_end_offset)  # mixed
    own_log.transactions.find_aborted(part, offset, own_log.end_position, print)  # mixed
    undecided.begin(producer, offset, position)
    undecided.begin(producer, position, offset)  # mixed
    undecided.end(producer, offset)  # mixed
    part.release(part.log_end_offset)
    part.release(part.last_end_position)  # mixed
    part.raise_log_start(own_log.start_position)  # mixed
    part.log_end_offset = own_log.end_position  # mixed
    part.columns.entry_of(part.log_start_offset)
    part.columns.entry_of(part.last_end_position)  # mixed
    part.columns.first_entry_at(part.log_start_offset)  # mixed


def of_members(
    member: ReplicaSetMember, leading: MasterSet, queue: AckQueue, waiting: Waiting
) -> None:
    part = member.log.open_partition(next(iter(member.log.partitions)))
    queue.park(member.log.end_position, waiting)
    queue.park(part.log_end_offset, waiting)  # mixed
    queue.release(member.confirm_position)
    queue.release(part.log_end_offset)  # mixed
    member.acknowledge(broker, member.log.durable_position)
    member.acknowledge(broker, member.leader_epoch)  # mixed
    member.note_master_confirmed(member.confirm_position)
    member.note_master_confirmed(part.log_end_offset)  # mixed
    leading.acknowledged(broker, position, 1)
    leading.acknowledged(broker, 1, position)  # mixed
"""


@pytest.mark.timeout(900)  # mypy without a cache: minutes on a busy machine
def test_mypy_finds_each_id_that_stands_in_the_place_of_another_kind(tmp_path):
    path = tmp_path / "mixed.py"
    path.write_text(SOURCE)
    command = [
        *(sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"),
        *("--cache-dir", tmp_path / "cache", "--no-error-summary", "--hide-error-context", path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    lines = {int(line.removeprefix(f"{path}:").split(":")[0]) for line in found}
    expected = {at for at, line in enumerate(SOURCE.split("\n"), 1) if line.endswith("# mixed")}
    assert lines == expected, done.stdout + done.stderr
