"""Operators' requests to the active controller: elect, transfer, drain.

Each request is checked, begun, and answered when it is done or has failed. All of them are bounded
in time: rounds, transfers and drains have timers of their own.

Source: RocketMQ's electMaster and Kafka's ElectLeaders. Requests that change metadata only
(policies, members) are plain commands.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.controller.active.context import ActiveContext
from penstock.controller.active.drains import Drains
from penstock.controller.active.elections import Elections
from penstock.controller.active.transfers import Transfers
from penstock.controller.commands.codec import encode_error
from penstock.controller.commands.command import DrainBroker
from penstock.controller.errors import (
    MetadataError,
    NotReplica,
    TransferFailed,
    UnknownReplicaSet,
)
from penstock.controller.metadata.causes import Cause
from penstock.controller.metadata.image import NO_MASTER, ReplicaSetImage
from penstock.controller.session import (
    DrainRequest,
    ElectRequest,
    OperationAnswer,
    TransferRequest,
)

Operation = ElectRequest | TransferRequest | DrainRequest
OperatorAnswered = Callable[[OperationAnswer], None]


class Operations:
    """Turns requests into election rounds, transfers and drains."""

    def __init__(
        self,
        context: ActiveContext,
        elections: Elections,
        transfers: Transfers,
        drains: Drains,
    ) -> None:
        self._context = context
        self._elections = elections
        self._transfers = transfers
        self._drains = drains

    def begin(self, request: Operation, answered: OperatorAnswered) -> None:
        """Begin the request, or answer with the error that prevents it."""
        try:
            match request:
                case ElectRequest():
                    self._elect(request, answered)
                case TransferRequest():
                    self._transfer(request, answered)
                case DrainRequest():
                    self._drain(request, answered)
                case _:
                    assert_never(request)
        except MetadataError as error:
            self.refuse(request, answered, error)

    def refuse(
        self,
        request: Operation,
        answered: OperatorAnswered,
        error: MetadataError,
        *,
        is_begun: bool = False,
    ) -> None:
        """Answer with an error."""
        data = encode_error(error)
        answered(OperationAnswer(request_id=request.request_id, error=data, is_begun=is_begun))

    def _elect(self, request: ElectRequest, answered: OperatorAnswered) -> None:
        replica_set = self._find(request.replica_set_id, request.master)
        set_id, context = replica_set.replica_set_id, self._context
        if context.has_live_master(replica_set):
            if request.is_repeated and request.master in {NO_MASTER, replica_set.master}:
                self._led(request, set_id, answered, None)
                return
            raise TransferFailed(
                set_id, f"broker {replica_set.master} leads it and is alive: ask for a transfer"
            )
        if self._elections.join(set_id, lambda error: self._elect_again(request, answered, error)):
            return
        broker = context.image.brokers.get(replica_set.master)
        dead = () if broker is None else ((broker.broker_id, broker.broker_epoch),)

        self._elections.start(
            (set_id,),
            dead=dead,
            wanted=request.master,
            is_unclean=request.is_unclean,
            done=lambda error: self._led(request, set_id, answered, error),
        )

    def _elect_again(
        self, request: ElectRequest, answered: OperatorAnswered, error: MetadataError | None
    ) -> None:
        """The round that was waited for is over: its master may be what was asked for."""
        if error is not None:
            self.refuse(request, answered, error, is_begun=True)
        else:
            self.begin(replace(request, is_repeated=True), answered)

    def _transfer(self, request: TransferRequest, answered: OperatorAnswered) -> None:
        replica_set = self._find(request.replica_set_id, request.target)
        set_id = replica_set.replica_set_id
        target = replica_set.replicas[0] if request.target == NO_MASTER else request.target
        if self._elections.is_electing(set_id):
            raise TransferFailed(set_id, "an election is under way: look again in a moment")

        def done(error: MetadataError | None) -> None:
            self._led(request, set_id, answered, error)

        if self._transfers.join(set_id, target, done):  # such as to the preferred master
            return
        if target == replica_set.master and self._context.has_live_master(replica_set):
            done(None)
            return
        if refusal := self._transfers.refusal(set_id, target):
            raise TransferFailed(set_id, refusal)
        self._transfers.start(set_id, target, cause=Cause.TRANSFER, done=done)

    def _find(self, set_id: ReplicaSetId, broker_id: BrokerId) -> ReplicaSetImage:
        replica_set = self._context.image.replica_sets.get(set_id)
        if replica_set is None:
            raise UnknownReplicaSet(set_id)
        if broker_id not in {NO_MASTER, *replica_set.replicas}:
            raise NotReplica(broker_id, set_id)
        return replica_set

    def _led(
        self,
        request: Operation,
        set_id: ReplicaSetId,
        answered: OperatorAnswered,
        error: MetadataError | None,
    ) -> None:
        if error is not None:
            self.refuse(request, answered, error, is_begun=True)
            return
        replica_set = self._context.image.replica_sets[set_id]
        text = (
            f"Broker {replica_set.master} is master of replica set {set_id} in leader epoch"
            f" {replica_set.leader_epoch}."
        )
        answered(OperationAnswer(request_id=request.request_id, text=text))

    def _drain(self, request: DrainRequest, answered: OperatorAnswered) -> None:
        def told(text: str, error: MetadataError | None) -> None:
            if error is not None:
                self.refuse(request, answered, error)
            else:
                answered(OperationAnswer(request_id=request.request_id, text=text))

        def marked(answer: object) -> None:
            if isinstance(answer, MetadataError):
                self.refuse(request, answered, answer)
            elif request.is_draining:
                self._drains.watch(request.broker_id, told)
            else:
                told(f"Broker {request.broker_id} may have duties again.", None)

        command = DrainBroker(broker_id=request.broker_id, is_draining=request.is_draining)
        self._context.submit(command, marked)
