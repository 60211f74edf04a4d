"""Random crashes, cut-off brokers, broken links and elections: nothing confirmed is ever lost.

Elections go by the controllers' rule (controller/active/election.py), at random moments.
"""

from pathlib import Path
from random import Random

import pytest

from harness.ha_cluster import Broker, HaCluster, ha_cluster
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, ControllerEpoch, ReplicaSetId, RequestId
from penstock.controller.active.election import Ballot, Elected, choose_master
from penstock.controller.session import ProbedSet, ProbeSets, ReleasePromises
from tests.runtime.ha_running import run_long

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

ALL = AckPolicy()
ADAPTIVE = AckPolicy(kind=PolicyKind.ADAPTIVE, required=2)
QUORUM = AckPolicy(kind=PolicyKind.QUORUM)
STEPS = 30


class Faults:
    """One random history over three brokers."""

    def __init__(self, cluster: HaCluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.confirmed = b""
        """The bytes that a master has confirmed so far."""

    def running(self) -> list[Broker]:
        return [broker for broker in self.cluster.brokers.values() if broker.is_running]

    def observe(self) -> None:
        """Every master's confirmed bytes begin with, or are the beginning of, all seen so far."""
        for broker in self.running():
            member = broker.manager.members.get(ReplicaSetId(1))
            if member is None or not member.is_master:
                continue
            seen = broker.frames()[: member.confirm_position]
            shared = min(len(seen), len(self.confirmed))
            assert seen[:shared] == self.confirmed[:shared], "confirmed bytes have changed"
            self.confirmed = max(self.confirmed, seen, key=len)

    def elect(self) -> None:
        image = self.cluster.controllers.image_of(1)
        probe = ProbeSets(
            request_id=RequestId(1),
            controller_epoch=ControllerEpoch(1),
            sets=(ProbedSet(replica_set_id=ReplicaSetId(1), leader_epoch=image.leader_epoch),),
        )
        reports = {
            BrokerId(broker.broker_id): report
            for broker in self.running()
            if broker.sees_controllers
            for report in broker.manager.probe(probe)
        }
        choice = choose_master(Ballot(replica_set=image, reports=reports))
        if isinstance(choice, Elected):
            self.cluster.controllers.elect(1, choice.master, *choice.sync_state_set)
            return
        released = ReleasePromises(
            controller_epoch=ControllerEpoch(1), request_id=RequestId(1), sets=probe.sets
        )
        for broker_id in reports:
            self.cluster[broker_id].manager.release(released)

    async def step(self) -> None:
        random, cluster = self.random, self.cluster
        match random.randrange(9):
            case 0 | 1 | 2 | 3:
                self.write()
            case 4:
                await self.crash(random.choice(self.running()))
            case 5:
                broker = random.choice(list(cluster.brokers.values()))
                self.cut_off(broker, random.random() < 0.5)
            case 6:
                for served in random.choice(self.running()).manager.server.links:
                    served.live.link.abort("cable")
            case _:
                self.elect()

    def write(self) -> None:
        for broker in self.running():
            member = broker.manager.members.get(ReplicaSetId(1))
            if member is not None and member.is_master:
                for _ in range(self.random.randrange(1, 12)):
                    try:
                        broker.append(size=self.random.randrange(80, 6_000))
                    except PlatformError:
                        return  # no next segment yet

    def cut_off(self, broker: Broker, is_cut: bool) -> None:
        """Controllers that do not know a process ask it to register as soon as they hear of it."""
        broker.cut_off(is_cut)
        if not is_cut and not broker.manager.is_registered:
            broker.register(broker.manager.incarnation)

    async def crash(self, broker: Broker) -> None:
        await broker.crash()
        await broker.start(is_registering=broker.sees_controllers)
        image = self.cluster.controllers.image_of(1)
        if image.master == broker.broker_id and broker.sees_controllers:
            self.elect()


async def history(root: Path, seed: int, policy: AckPolicy) -> None:
    async with ha_cluster(root, 1, 2, 3, replica_lag_time_ms=500) as cluster:
        await cluster.make_set(1, 2, 3, policy=policy)
        await cluster.confirmed(1)
        faults = Faults(cluster, Random(seed))
        for _ in range(STEPS):
            await faults.step()
            for _ in range(faults.random.randrange(4)):
                await cluster.pause(0.02)
                faults.observe()
        for broker in cluster.brokers.values():
            faults.cut_off(broker, False)
        await cluster.until(lambda: all(1 in one.manager.members for one in faults.running()))
        faults.elect()
        master = cluster.controllers.image_of(1).master
        await cluster.leads(master)
        cluster[master].append()
        await cluster.in_step(1, 2, 3)
        await cluster.confirmed(master)
        await cluster.equal(1, 2, 3)
        faults.observe()
        assert cluster[master].frames().startswith(faults.confirmed)


@pytest.mark.parametrize("policy", [ALL, QUORUM, ADAPTIVE], ids=["all", "quorum", "adaptive"])
@pytest.mark.parametrize("seed", range(4))
def test_after_any_faults_all_that_was_confirmed_is_in_three_equal_logs(
    tmp_path: Path, seed: int, policy: AckPolicy
) -> None:
    run_long(history(tmp_path, seed, policy))
