"""After a change of a topic: wait until the brokers tell of it.

The controllers have a change when they answer for it; each broker learns of it a moment later. A
command that returned at once would let the next one, at another broker, hear that a topic is not
there. A broker that is not there or does not answer is not waited for: it learns of the change
before it serves again. Nor is any longer than `WAIT_MS`: the change is made either way.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.client.cluster import Cluster
from penstock.client.errors import BrokerError, ClientError
from penstock.client.views import TopicView

WAIT_MS = 5_000
"""In sum, for all brokers."""
ANSWER_MS = 1_000
"""For a connection to one broker, and for one answer."""
PAUSE_MS = 20

Judge = Callable[[TopicView | None], bool]
"""Whether what a broker says of the topic, None when it knows of none, is the change."""


def wait_until_told(cluster: Cluster, topic: str, is_told: Judge) -> bool:
    """Return whether each broker that answers tells of a change. Never raises ClientError."""
    settings = replace(cluster.settings, connect_timeout_ms=ANSWER_MS, request_timeout_ms=ANSWER_MS)
    time_ms = min(WAIT_MS, settings.deadline_ms)
    with Cluster(replace(settings, deadline_ms=time_ms)) as asking:
        try:
            brokers = [one.broker_id for one in asking.describe([]).brokers]
        except ClientError:
            return False
        deadline = time.monotonic() + time_ms / 1000
        return all_told(
            brokers,
            lambda broker_id: asking.topic_at(broker_id, topic),
            is_told,
            is_over=lambda: time.monotonic() > deadline,
            pause=lambda: time.sleep(PAUSE_MS / 1000),
        )


def all_told(
    brokers: Iterable[int],
    ask: Callable[[int], TopicView | None],
    is_told: Judge,
    *,
    is_over: Callable[[], bool],
    pause: Callable[[], None],
) -> bool:
    """Ask each broker again and again until it tells of the change, fails to answer, or time ends.

    A code for the topic other than "unknown" (`BrokerError`, no leader yet) is asked about again.
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
