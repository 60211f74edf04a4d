"""Finds the coordinator of an internal partition, and reads the partition's log as it does."""

from collections.abc import Iterable

from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.partitions import HostedPartition
from penstock.node.node import Node
from penstock.replica.replica_set import Role
from simulator.run.server import Server


def master_of(servers: Iterable[Server], partition: int) -> tuple[Server, HostedPartition] | None:
    """Return the master of the partition in the newest epoch, and the partition there."""
    best: tuple[int, Server, HostedPartition] | None = None
    for server in servers:
        journal = journal_of(server)
        if journal is None or server.is_paused or partition >= len(journal.partitions):
            continue
        hosted = journal.partitions[partition]
        if hosted is None or hosted.member.role is not Role.MASTER:
            continue
        if best is None or hosted.member.leader_epoch > best[0]:
            best = (hosted.member.leader_epoch, server, hosted)
    return None if best is None else best[1:]


def journal_of(server: Server) -> InternalTopicJournal | None:
    """Return a way to the internal topic as this broker has it."""
    node = server.node
    if server.process is None or not isinstance(node, Node) or node.manager is None:
        return None
    return node.journal
