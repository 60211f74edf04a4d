"""The coordinator of shares of a node, and what asks and answers for it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.invariant import invariant
from penstock.base.ports import Clock
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.coordinators.lease import JournalMasterships
from penstock.broker.coordinators.share_places import SharePlaces
from penstock.broker.coordinators.share_policies import popping_group
from penstock.controller.commands.topic_names import SHARE_STATE_TOPIC
from penstock.coordinator.calls.shares import (
    ShareBeginRequest,
    ShareChangeRequest,
    ShareLeaveRequest,
    ShareSummaryRequest,
)
from penstock.kafka.front import KafkaFront
from penstock.kafka.shares.admissions import ShareAdmissions
from penstock.kafka.shares.admitting import ShareAdmitting
from penstock.kafka.shares.answering import ShareAnswers
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.io.supervisor import Supervisor
from penstock.shares.config import ShareConfig
from penstock.shares.coordinator import ShareCoordinator
from penstock.shares.messages import DeadLetters
from penstock.shares.runs import Runs
from penstock.shares.state import ShareKey

if TYPE_CHECKING:
    from penstock.remoting.pop.desk import PopDesk


class NoLetters:
    """The DeadLetters port of a node without a port for RocketMQ's clients.

    Share groups have no dead letters: a record that is given up is over at once (Kafka 4.2;
    KIP-1191 comes later). What RocketMQ's clients have popped too often waits for a master with
    their port.
    """

    def send(self, partition: int, key: ShareKey, runs: Runs) -> None:
        """As in DeadLetters."""
        is_popped = popping_group(key.group) is not None
        invariant(
            not runs or is_popped, "no group has dead letters", partition=partition, group=key.group
        )

    def cancel(self, partition: int) -> None:
        """As in DeadLetters."""


def letters_of(desk: "PopDesk | None") -> DeadLetters:
    """Return what copies dead letters on a node that has this desk."""
    return NoLetters() if desk is None else desk.letters


def start_shares(  # noqa: PLR0913  what it is wired to
    front: KafkaFront,
    clock: Clock,
    config: ShareConfig,
    *,
    calls: BrokerCalls,
    supervisor: Supervisor,
    desk: "PopDesk | None",
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> None:
    """Coordinate the shares of the data that is led here.

    `on_unreadable` is told the internal topic, the partition and why it can not be loaded.
    """
    broker = front.broker
    journal = InternalTopicJournal(broker, SHARE_STATE_TOPIC)
    broker.share_places = SharePlaces(broker, config, supervisor.run_once)
    broker.shares = ShareCoordinator(
        clock,
        journal,
        config=config,
        groups=broker.share_places,
        letters=letters_of(desk),
        masterships=JournalMasterships(broker, journal),
        later=broker.scheduler.call_soon,
        after=broker.scheduler.call_later,
        traces=broker.message_trace,
    )
    front.share_admissions = admissions = ShareAdmissions(broker, calls, supervisor.run_once)
    if desk is not None:
        desk.may_begin = admissions
    answers = ShareAnswers(broker, front.share_sessions, admissions)
    calls.server.serve(ShareSummaryRequest, answers.summaries)
    calls.server.serve(ShareChangeRequest, answers.change)
    calls.server.serve(ShareLeaveRequest, answers.leave)
    calls.server.serve(ShareBeginRequest, ShareAdmitting(broker).may_begin)
    unreadable = partial(on_unreadable, SHARE_STATE_TOPIC)
    broker.host(CoordinatorHosting(broker, broker.shares.runtime, journal, unreadable))
