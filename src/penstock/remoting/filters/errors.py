"""Errors of subscriptions that a pull does not bring along, but means those of the last heartbeat.

    SubscriptionMissing   no heartbeat of this client has told of one
    SubscriptionOlder     the last heartbeat had an older one
    FilterMissing         the last heartbeat had one by which nothing can be filtered

A client pulls again after a while, and its heartbeats come every 30 s, or at once when it
subscribes. Source: RocketMQ `PullMessageProcessor`.
"""

from penstock.remoting.errors import RemotingError


class SubscriptionMissing(RemotingError):
    """It is not known which messages the consumer wants."""


class SubscriptionOlder(RemotingError):
    """The consumer wants others than its last heartbeat has told."""


class FilterMissing(RemotingError):
    """The expression of the last heartbeat is none."""
