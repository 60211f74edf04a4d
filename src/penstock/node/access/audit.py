"""Where rows for people go: the audit, metrics that clients push, the trace of messages."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.base.ports import Randomness
from penstock.broker.audit.audit_log import AuditLog
from penstock.broker.audit.client_metrics import ClientMetrics
from penstock.broker.audit.message_trace import MessageTrace
from penstock.broker.audit.row_log import RowTopic
from penstock.broker.broker import Broker
from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.finding.traces import TOPIC as MESSAGE_TRACE_TOPIC
from penstock.kafka.front import KafkaFront
from penstock.telemetry.row import TOPIC as CLIENT_METRICS_TOPIC

log = logging.getLogger(__name__)

PARTITIONS = 16
"""Of each of the topics: each node needs one that it leads."""
END_SECONDS = 2.0
"""At most, of a stop: what is not confirmed by then is lost."""
POLL_SECONDS = 0.005
Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


def start_audit(front: KafkaFront, spawn: Spawn, randomness: Randomness) -> None:
    """Count what clients do, take their metrics: if settings say so; trace messages of topics.

    It is from the next request on, and has to be before coordinators of shares start. `randomness`
    draws the ids of client instances.
    """
    broker = front.broker
    if broker.config.audit:
        audit = AuditLog(broker, _topic(front, spawn, AUDIT_TOPIC))
        broker.audit = audit
        broker.denials.on_denied = audit.denied
        broker.on_expire.append(audit.expire)
    if broker.config.client_metrics:
        topic = _topic(front, spawn, CLIENT_METRICS_TOPIC)
        metrics = ClientMetrics(broker, topic, lambda: _random_id(randomness))
        broker.client_metrics = metrics
        broker.on_expire.append(metrics.expire)
    trace = MessageTrace(broker, _topic(front, spawn, MESSAGE_TRACE_TOPIC))
    broker.message_trace = trace
    broker.on_expire.append(trace.expire)


def _topic(front: KafkaFront, spawn: Spawn, name: str) -> RowTopic:
    topic = InternalTopic(front.broker, front.on_demand, name, lambda: PARTITIONS)
    return RowTopic(InternalTopicJournal(front.broker, name), topic, spawn)


def _random_id(randomness: Randomness) -> UUID:
    return UUID(bytes=randomness.token_bytes(16), version=4)


async def end_audit(broker: Broker) -> None:
    """Write what was counted and taken so far, while partitions are still led here.

    It is bounded in time.
    """
    named = (
        ("the audit", broker.audit),
        ("client metrics", broker.client_metrics),
        ("the message trace", broker.message_trace),
    )
    logs = [one for _, one in named if one is not None]
    for one in logs:
        one.end()
    try:
        async with asyncio.timeout(END_SECONDS):
            while any(len(one) and not one.is_stuck for one in logs):
                await asyncio.sleep(POLL_SECONDS)
                for one in logs:
                    one.expire(broker.clock.monotonic_ms())
    except TimeoutError:
        pass
    for name, rows in named:
        if rows is not None and len(rows):
            log.warning("stops with %d rows of %s that nobody confirmed", len(rows), name)
