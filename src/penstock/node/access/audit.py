"""The audit of a node: what is counted, and the topic to which it goes."""

from collections.abc import Callable, Coroutine
from typing import Any

from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.broker.audit_log import AuditLog
from penstock.broker.coordinators.internal_topic import InternalTopic
from penstock.broker.coordinators.journal import InternalTopicJournal
from penstock.kafka.front import KafkaFront

PARTITIONS = 16
"""Of the audit's topic: each node needs one that it leads."""


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
