"""The consensus port over Raft: one voter alone, a leader of three, and three members."""

from tests.controller.replicated_group_contract import GroupHarness, ReplicatedGroupContract
from tests.controller.replicated_log_contract import LogHarness, ReplicatedLogContract
from tests.runtime.raft_harness import LeaderHarness, OneVoterHarness, RaftGroupHarness


class TestOneVoter(ReplicatedLogContract):
    def make(self) -> LogHarness:
        return OneVoterHarness()


class TestLeaderOfThree(ReplicatedLogContract):
    def make(self) -> LogHarness:
        return LeaderHarness()


class TestThreeVoters(ReplicatedGroupContract):
    def make(self) -> GroupHarness:
        return RaftGroupHarness()
