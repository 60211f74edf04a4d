"""Operations of operators, also during faults; a refusal that is allowed is no finding.

Temporary changes are undone when the fault ends. At the end of a run some operations are done again
on a healthy cluster, and then all members have to be in step within a time limit.
"""

from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId, RequestId
from penstock.controller.commands.command import (
    AddReplica,
    AllocateProducerIds,
    Command,
    ForgetIdentity,
    RemoveBroker,
    RemoveReplica,
    SetAckPolicy,
    SetDefaultPolicy,
    SetFailover,
    SetUncleanElection,
)
from penstock.controller.metadata.image import NO_MASTER, ClusterImage, ReplicaSetImage
from penstock.controller.session import DrainRequest, ElectRequest, TransferRequest
from penstock.node.node import Node
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind

Heal = Callable[[], None]
Wish = Callable[[Node], Coroutine[Any, Any, object]]

OTHER_POLICIES = (
    AckPolicy(kind=PolicyKind.QUORUM, required=1),
    AckPolicy(kind=PolicyKind.ALL, required=1),
)

NOBODY = 77
"""No broker's id."""
NO_SET = 77


class Operators:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster, draw: Random) -> None:
        self._cluster = cluster
        self._random = draw
        self.taken: list[str] = []
        """What should have been refused."""
        self._policies: dict[ReplicaSetId, AckPolicy] = {}
        """Those of sets before any was changed: two changes that overlap end with the same one."""

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of wish."""
        return {
            FaultKind.TRANSFER: self._transfer,
            FaultKind.ELECT: self._elect,
            FaultKind.POLICY: self._policy,
            FaultKind.REPLACE: self._replace,
            FaultKind.DRAIN: self._drain,
            FaultKind.STATUS: self._status,
            FaultKind.SETTING: self._setting,
            FaultKind.MISUSE: self._misuse,
        }

    def _set(self, fault: Fault) -> ReplicaSetImage | None:
        image, set_ids = self._cluster.newest_image(), self._cluster.set_ids()
        if image is None or not set_ids:
            return None
        return image.replica_sets[ReplicaSetId(set_ids[fault.amount % len(set_ids)])]

    def _command(self, name: str, command: Command[Any]) -> bool:
        def work(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.submit(command)

        return self._cluster.ask(name, work)

    def _policy(self, fault: Fault) -> Heal | None:
        """Another policy for a while; both wait for as many copies as it takes to lose one."""
        one = self._set(fault)
        if one is None or len(one.replicas) < 3:
            return None
        set_id = one.replica_set_id
        before = self._policies.setdefault(set_id, one.policy)
        other = next(each for each in OTHER_POLICIES if each.kind is not one.policy.kind)
        if not self._command("policy", SetAckPolicy(replica_set_id=set_id, policy=other)):
            return None
        return lambda: self._cluster.insist(
            "policy back",
            SetAckPolicy(replica_set_id=set_id, policy=before),
            lambda image: image.replica_sets[set_id].policy == before,
        )

    def _replace(self, fault: Fault) -> Heal | None:
        """A slave leaves the set and comes again: with what it still has, or with a copy."""
        one = self._set(fault)
        slaves = [] if one is None else [each for each in one.replicas if each != one.master]
        if one is None or one.master == NO_MASTER or not slaves:
            return None
        set_id, broker_id = one.replica_set_id, self._random.choice(slaves)
        remove = RemoveReplica(replica_set_id=set_id, broker_id=broker_id)
        if not self._command("remove", remove):
            return None
        return lambda: self._cluster.insist(
            "add",
            AddReplica(replica_set_id=set_id, broker_id=broker_id),
            lambda image: broker_id in image.replica_sets[set_id].replicas,
        )

    def _drain(self, fault: Fault) -> Heal | None:
        broker_id = sorted(self._cluster.brokers)[fault.amount % len(self._cluster.brokers)]

        def ask(is_draining: bool) -> Wish:
            def work(node: Node) -> Coroutine[Any, Any, object]:
                assert node.sessions is not None
                return node.sessions.commands.operate(
                    lambda request_id: DrainRequest(
                        request_id=request_id,
                        broker_id=BrokerId(broker_id),
                        is_draining=is_draining,
                    )
                )

            return work

        if not self._cluster.ask("drain", ask(True)):
            return None
        return lambda: self._cluster.insist_on(
            "drain ends",
            ask(False),
            lambda image: not image.brokers[BrokerId(broker_id)].is_draining,
        )

    def _status(self, fault: Fault) -> Heal | None:
        def work(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.commands.status()

        return _nothing if self._cluster.ask(fault.kind, work) else None

    def _setting(self, fault: Fault) -> Heal | None:
        one = self._set(fault)
        if one is None:
            return None
        other, back, is_back = _settings(one.replica_set_id)[fault.amount % 3]
        if not self._command(fault.kind, other):
            return None
        return lambda: self._cluster.insist("setting back", back, is_back)

    def _misuse(self, fault: Fault) -> Heal | None:
        one = self._set(fault)
        if one is None or one.master == NO_MASTER:
            return None

        def asks(command: Command[Any]) -> Wish:
            async def work(node: Node) -> None:
                assert node.sessions is not None
                await node.sessions.submit(command)
                self.taken.append(repr(command))  # a refusal is raised

            return work

        wrong = _refused(one.replica_set_id, one.master)
        is_asked = [self._cluster.ask(fault.kind, asks(command)) for command in wrong]
        return _nothing if all(is_asked) else None

    def _transfer(self, fault: Fault) -> Heal | None:
        def request(set_id: int, request_id: int) -> TransferRequest:
            target = self._successor(set_id)
            return TransferRequest(
                request_id=RequestId(request_id),
                replica_set_id=ReplicaSetId(set_id),
                target=BrokerId(target),
            )

        return self._operate(fault, request)

    def _successor(self, set_id: int) -> int:
        """Return a member that does not lead."""
        image = self._cluster.newest_image()
        one = None if image is None else image.replica_sets.get(ReplicaSetId(set_id))
        slaves = [] if one is None else [each for each in one.replicas if each != one.master]
        return self._random.choice(slaves) if slaves else NO_MASTER

    def _elect(self, fault: Fault) -> Heal | None:
        def request(set_id: int, request_id: int) -> ElectRequest:
            return ElectRequest(
                request_id=RequestId(request_id), replica_set_id=ReplicaSetId(set_id)
            )

        return self._operate(fault, request)

    def _operate(
        self, fault: Fault, request: Callable[[int, int], TransferRequest | ElectRequest]
    ) -> Heal | None:
        set_ids = self._cluster.set_ids()
        if not set_ids:
            return None
        set_id = set_ids[fault.amount % len(set_ids)]

        def work(node: Node) -> Coroutine[Any, Any, object]:
            assert node.sessions is not None
            return node.sessions.commands.operate(lambda request_id: request(set_id, request_id))

        return _nothing if self._cluster.ask(fault.kind, work) else None


def _settings(
    set_id: int,
) -> tuple[tuple[Command[Any], Command[Any], Callable[[ClusterImage], bool]], ...]:
    """Return commands, each with the one that takes it back and what tells that it was."""
    quorum, everybody = OTHER_POLICIES
    return (
        (
            SetDefaultPolicy(policy=quorum),
            SetDefaultPolicy(policy=everybody),
            lambda image: image.default_policy == everybody,
        ),
        (
            SetUncleanElection(replica_set_id=ReplicaSetId(set_id), is_allowed=True),
            SetUncleanElection(replica_set_id=ReplicaSetId(set_id), is_allowed=False),
            lambda image: not image.replica_sets[set_id].is_unclean_allowed,
        ),
        (
            SetFailover(is_enabled=False),
            SetFailover(is_enabled=True),
            lambda image: image.is_failover_enabled,
        ),
    )


def _refused(set_id: int, master: int) -> tuple[Command[Any], ...]:
    """Return commands that can not be, whatever else happens in the cluster."""
    return (
        AllocateProducerIds(broker_id=BrokerId(NOBODY)),
        AddReplica(replica_set_id=ReplicaSetId(set_id), broker_id=BrokerId(NOBODY)),
        SetAckPolicy(replica_set_id=ReplicaSetId(NO_SET), policy=OTHER_POLICIES[0]),
        SetUncleanElection(replica_set_id=ReplicaSetId(NO_SET), is_allowed=True),
        RemoveBroker(broker_id=BrokerId(master)),
        ForgetIdentity(broker_id=BrokerId(NOBODY)),
    )


def _nothing() -> None:
    """End what has ended by itself."""
