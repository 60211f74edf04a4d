"""The coordinator of shares of a node, and what asks and answers for it."""

from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.base.invariant import invariant
from penstock.base.ports import Clock
from penstock.broker.broker import Broker
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.coordinators.lease import JournalMasterships
from penstock.broker.coordinators.share_places import SharePlaces
from penstock.controller.commands.topic_names import SHARE_STATE_TOPIC
from penstock.coordinator.share_calls import (
    ShareChangeRequest,
    ShareLeaveRequest,
    ShareSummaryRequest,
)
from penstock.kafka.shares.answering import ShareAnswers
from penstock.kafka.shares.sessions import ShareSessions
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.io.supervisor import Supervisor
from penstock.shares.config import ShareConfig
from penstock.shares.coordinator import ShareCoordinator
from penstock.shares.runs import Runs
from penstock.shares.state import ShareKey


class NoLetters:
    """The DeadLetters port of a node whose groups have no dead letters.

    A record that is given up is over at once (Kafka 4.2; KIP-1191 comes later), so none is ever to
    be copied.
    """

    def send(self, partition: int, key: ShareKey, runs: Runs) -> None:
        """As in DeadLetters."""
        invariant(not runs, "no group has dead letters", partition=partition, group=key.group)

    def cancel(self, partition: int) -> None:
        """As in DeadLetters."""


def start_shares(  # noqa: PLR0913  the parts of a node
    broker: Broker,
    clock: Clock,
    config: ShareConfig,
    *,
    calls: BrokerCalls,
    sessions: ShareSessions,
    supervisor: Supervisor,
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> None:
    """Coordinate the shares of the data that is led here.

    `on_unreadable` is told the internal topic, the partition and why it can not be loaded.
    """
    journal = InternalTopicJournal(broker, SHARE_STATE_TOPIC)
    broker.share_places = SharePlaces(broker, config, supervisor.run_once)
    broker.shares = ShareCoordinator(
        clock,
        journal,
        config=config,
        groups=broker.share_places,
        letters=NoLetters(),
        masterships=JournalMasterships(broker, journal),
        later=broker.scheduler.call_soon,
    )
    answers = ShareAnswers(broker, sessions)
    calls.server.serve(ShareSummaryRequest, answers.summaries)
    calls.server.serve(ShareChangeRequest, answers.change)
    calls.server.serve(ShareLeaveRequest, answers.leave)
    unreadable = partial(on_unreadable, SHARE_STATE_TOPIC)
    broker.host(CoordinatorHosting(broker, broker.shares.runtime, journal, unreadable))
