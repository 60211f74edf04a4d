"""The transaction coordinator of a node, and what asks and answers for it."""

from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.base.ports import Clock
from penstock.broker.broker import Broker
from penstock.broker.coordinators.hosting import CoordinatorHosting
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.broker.coordinators.lease import JournalMasterships
from penstock.coordinator.calls.transactions import MarkersRequest, VerifyRequest
from penstock.kafka.transactions.answering import TransactionAnswers
from penstock.kafka.transactions.asking import CoordinatorAsker
from penstock.kafka.transactions.fresh_ids import FreshIds
from penstock.kafka.transactions.marking import MarkerSender
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.io.supervisor import Supervisor
from penstock.transactions.config import TransactionConfig
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.partitioning import INTERNAL_TOPIC


def start_transactions(
    broker: Broker,
    clock: Clock,
    config: TransactionConfig,
    *,
    calls: BrokerCalls,
    supervisor: Supervisor,
    on_unreadable: Callable[[str, int, PlatformError], None],
) -> None:
    """Coordinate the transactions whose internal partitions are led here, and verify batches.

    `on_unreadable` is told the internal topic, the partition and why it can not be loaded.
    """
    journal, spawn = InternalTopicJournal(broker, INTERNAL_TOPIC), supervisor.run_once
    take = partial(broker.producer_ids.take, broker.controller, broker.broker_id)
    broker.transactions = TransactionCoordinator(
        clock,
        journal,
        config=config,
        ids=FreshIds(take, spawn),
        markers=MarkerSender(broker, calls, spawn),
        masterships=JournalMasterships(broker, journal),
        later=broker.scheduler.call_soon,
    )
    answers = TransactionAnswers(broker)
    broker.verifier = CoordinatorAsker(broker, calls, answers)
    calls.server.serve(VerifyRequest, answers.verify)
    calls.server.serve(MarkersRequest, answers.write_markers)
    unreadable = partial(on_unreadable, INTERNAL_TOPIC)
    broker.host(CoordinatorHosting(broker, broker.transactions.runtime, journal, unreadable))
