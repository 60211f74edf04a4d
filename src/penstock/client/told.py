"""Waiting, after a change of a topic, until the brokers know of it.

The controllers have recorded a change when they answer; each broker learns of it a moment later. If
a command returned at once, the next one could be told by another broker that a topic does not
exist. A broker that is down or does not answer is skipped: it learns of the change before it serves
again. The wait ends after `WAIT_MS` in any case: the change is made either way.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.client.cluster import Cluster, topic_view
from penstock.client.errors import BrokerError, ClientError
from penstock.client.views import TopicView
from penstock.protocol.api_keys import ApiKey

WAIT_MS = 5_000
"""Limit for all brokers together."""
ANSWER_MS = 1_000
"""Limit for a connection to one broker, and for one answer."""
PAUSE_MS = 20

Judge = Callable[[TopicView | None], bool]
"""Returns whether a broker's view of the topic (None if it knows of none) shows the change."""


def wait_until_told(cluster: Cluster, topic: str, is_told: Judge) -> bool:
    """Return whether each broker that answers knows of the change. Never raises ClientError."""
    settings = replace(cluster.settings, connect_timeout_ms=ANSWER_MS, request_timeout_ms=ANSWER_MS)
    time_ms = min(WAIT_MS, settings.deadline_ms)
    with Cluster(replace(settings, deadline_ms=time_ms)) as asking:
        try:
            brokers = [broker.broker_id for broker in asking.describe([]).brokers]
        except ClientError:
            return False
        deadline = time.monotonic() + time_ms / 1000
        return all_told(
            brokers,
            lambda broker_id: _topic_at(asking, broker_id, topic),
            is_told,
            is_over=lambda: time.monotonic() > deadline,
            pause=lambda: time.sleep(PAUSE_MS / 1000),
        )


def _topic_at(cluster: Cluster, broker_id: int, name: str) -> TopicView | None:
    """Ask one broker for a topic; None if it knows of none. Does not retry, keeps nothing.

    Raises ConnectionFailed and the like; BrokerError for errors that may pass.
    """
    fields = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    (answer,) = cluster.connection(broker_id).call(ApiKey.METADATA, fields).topics
    return topic_view(answer)


def all_told(
    brokers: Iterable[int],
    ask: Callable[[int], TopicView | None],
    is_told: Judge,
    *,
    is_over: Callable[[], bool],
    pause: Callable[[], None],
) -> bool:
    """Ask each broker until it knows of the change, does not answer, or time is over.

    After an error code for the topic (`BrokerError`, such as no leader yet) it is asked again.
    """
    for broker_id in brokers:
        while True:
            try:
                if is_told(ask(broker_id)):
                    break
            except BrokerError:
                pass
            except ClientError:
                break
            if is_over():
                return False
            pause()
    return True
