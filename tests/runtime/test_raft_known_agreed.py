"""What a member still knows to be agreed on when the power is back, though its mark is not synced.

An entry that was proposed because an earlier one was agreed on is never on a disk that does not say
so: the message that brings it names a commit index that is at least the earlier one's, and both
are written as one frame. A broker's start rests on that (node/logs.py, `NodeLogs.open`).
"""

from functools import partial

import pytest

from harness.first_start import first_start
from penstock.raft.entry import EntryKind
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.storage import RaftStorage
from tests.runtime.raft_harness import RaftCluster, RaftMember
from tests.runtime.test_raft_log import disturb, log_of, snapshot_if_wanted

Prior = dict[bytes, int]
"""By entry: how many were applied where it was proposed."""


def propose(member: RaftMember, number: int, prior: Prior) -> None:
    payload = b"%d" % number
    prior[payload] = len(member.machine.state)
    log_of(member).propose(payload, lambda _: None)


def needed_by(cluster: RaftCluster, member: RaftMember, prior: Prior) -> int:
    """Return how many entries were agreed on before those on this disk were proposed."""
    first = first_start(cluster.voters)
    storage = RaftStorage(member.disk, "metadata", own_id=member.member_id, first=first)
    entries = [entry for entry in storage.found.entries if entry.kind is EntryKind.NORMAL]
    storage.close()
    return max((prior[bytes(entry.payload)] for entry in entries), default=0)


@pytest.mark.parametrize("seed", range(6))
def test_what_an_entry_rests_on_is_known_to_be_agreed_wherever_it_is_durable(seed: int) -> None:
    cluster = RaftCluster(3, seed=seed, config=RaftLogConfig(snapshot_after_bytes=2_000))
    cluster.start(1, 2, 3, 7)
    cluster.network.loss, cluster.network.jitter_ms = 0.05, 15
    prior: Prior = {}
    losses = 0
    for _ in range(60):
        for member in cluster.members.values():
            if member.leads:
                propose(member, len(prior), prior)
                snapshot_if_wanted(member)
        cluster.run(cluster.random.randrange(300))
        disturb(cluster)
        member = cluster.member(cluster.random.choice((1, 2, 3, 7)))
        if member.log is not None:
            member.crash()
        needed = needed_by(cluster, member, prior)
        member.start()
        assert len(member.machine.state) >= needed
        losses += needed > 0
    assert losses > 6


def test_a_learner_that_missed_two_leaders_knows_what_the_last_entry_rests_on() -> None:
    cluster = RaftCluster(3)
    cluster.start(1, 2, 3, 7)
    old = cluster.leader()
    cluster.run(1_000)
    cluster.network.cut_off = {7}
    for payload in (b"the set grows", b"its new member is registered"):
        log_of(old).propose(payload, lambda _: None)
        cluster.wait(partial(lambda payload: payload in old.machine.state, payload))
    old.crash()
    cluster.network.cut_off = set()
    cluster.leader()
    learner = cluster.member(7)
    cluster.wait(lambda: b"its new member is registered" in learner.machine.state)
    for member in cluster.members.values():
        if member.log is not None:
            member.crash()
    learner.start()
    assert b"the set grows" in learner.machine.state
