"""The audit of a node: what is counted, and the topic to which it goes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.broker.audit_log import AuditLog
from penstock.broker.broker import Broker
from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.kafka.front import KafkaFront

log = logging.getLogger(__name__)

PARTITIONS = 16
"""Of the audit's topic: each node needs one that it leads."""
END_SECONDS = 2.0
"""At most, of a stop: what is not confirmed by then is lost."""
POLL_SECONDS = 0.005


def start_audit(front: KafkaFront, spawn: Callable[[str, Coroutine[Any, Any, None]], None]) -> None:
    """Count what clients do from the next request on, if the settings say so."""
    broker = front.broker
    if not broker.config.audit:
        return
    topic = InternalTopic(broker, front.on_demand, AUDIT_TOPIC, lambda: PARTITIONS)
    audit = AuditLog(broker, InternalTopicJournal(broker, AUDIT_TOPIC), topic, spawn)
    broker.audit = audit
    broker.denials.on_denied = audit.denied
    broker.on_expire.append(audit.expire)


async def end_audit(broker: Broker) -> None:
    """Write what was counted so far, while partitions are still led here; bounded in time."""
    audit = broker.audit
    if audit is None:
        return
    audit.end()
    try:
        async with asyncio.timeout(END_SECONDS):
            while len(audit) and not audit.is_stuck:
                await asyncio.sleep(POLL_SECONDS)
                audit.expire(broker.clock.monotonic_ms())
    except TimeoutError:
        pass
    if len(audit):
        log.warning("stops with %d rows of the audit that nobody confirmed", len(audit))
