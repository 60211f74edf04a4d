"""How the parts of a node take settings, at start and while it runs, and rules of access.

Only fields that a key of controller/resource_config/broker_keys.py names ever differ here; what
else stands in a section is as at start.
"""

import logging
from dataclasses import replace
from functools import partial

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.base.ids import BrokerId
from penstock.base.ports import Offload
from penstock.broker.broker import Broker
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.groups.config import GroupConfig
from penstock.net.listener import Listener
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.receive import ELSEWHERE_PART
from penstock.node.dynamic_config import DynamicConfig
from penstock.node.machine import Machine
from penstock.node.recovery import LogOpener
from penstock.node.settings.settings import NodeSettings
from penstock.shares.config import ShareConfig

SESSIONS_PART = 8
"""Fetch sessions may take so much of what clients may pin."""
REMOTING_PART = 8
"""Requests and members of remoting clients may take so much."""
GRPC_PART = 8
"""Requests and answers of gRPC clients may take so much."""
KEPT_PART = 16
"""Batches in the middle of which RocketMQ's clients have stopped reading may take so much."""
SHARES_PART = 4
"""Shares may take so much, beside it."""


def new_broker(
    settings: NodeSettings, machine: Machine, image: ClusterImage, batch_workers: Offload
) -> Broker:
    """Return a broker with the settings at start, which hosts nothing yet."""
    broker = Broker(
        broker_id=BrokerId(settings.node.broker_id),
        config=settings.broker,
        clock=machine.clock,
        scheduler=machine.scheduler,
        metadata=image,
    )
    broker.workers = batch_workers
    return broker


def follow_parts(
    dynamic: DynamicConfig, static: NodeSettings, opener: LogOpener, broker: Broker
) -> None:
    """Let those parts of a node follow that are there from the beginning."""
    dynamic.follow(LogLevel(static).take)
    dynamic.follow(partial(take_broker, broker))
    dynamic.follow(LogsOfNode(opener, broker).take)
    dynamic.on_topic = broker.partitions.apply_topic
    authorise(broker, static.access)


def authorise(broker: Broker, config: AccessConfig) -> None:
    """Let the rules of the image decide, from the next request on; off: everything is permitted.

    To be called before the image has its first rule: the authoriser follows the changes.
    """
    if config.authorizer is AuthoriserKind.OFF:
        return
    assert not broker.metadata.configuration.acls
    authoriser = AclAuthoriser(config)

    def follow(delta: ClusterDelta) -> None:
        if delta.added_acls or delta.removed_acls:
            authoriser.change(
                [(acl.acl_id, acl.rule) for acl in delta.added_acls],
                [(acl.acl_id, acl.rule) for acl in delta.removed_acls],
            )

    broker.metadata.subscribe(follow)
    broker.authoriser = authoriser


def group_config(settings: NodeSettings) -> GroupConfig:
    """Groups have their part of what clients may pin, and never more."""
    groups, pinned = settings.groups, pinned_bytes_max(settings.net)
    members = min(groups.members_bytes_max, pinned // ELSEWHERE_PART - pinned // SESSIONS_PART)
    offsets = min(groups.offsets_bytes_max, members * 2 // 3)
    return replace(groups, members_bytes_max=members, offsets_bytes_max=offsets)


def share_config(settings: NodeSettings) -> ShareConfig:
    """Shares have their part beside what clients may pin otherwise, and never more."""
    shares, pinned = settings.shares, pinned_bytes_max(settings.net)
    return replace(shares, memory_bytes_max=min(shares.memory_bytes_max, pinned // SHARES_PART))


class LogLevel:
    """Sets the level of the process's log where it is changed; as at start it is left alone."""

    def __init__(self, static: NodeSettings) -> None:
        self._now = static.node.log_level

    def take(self, settings: NodeSettings) -> None:
        """Follow a change."""
        if settings.node.log_level != self._now:
            self._now = settings.node.log_level
            logging.getLogger().setLevel(self._now.upper())


class LogsOfNode:
    """Gives what can change of `log` to every open log, and to those that are opened later."""

    def __init__(self, opener: LogOpener, broker: Broker) -> None:
        self._opener = opener
        self._broker = broker

    def take(self, settings: NodeSettings) -> None:
        """Follow a change."""
        if settings.log == self._opener.config:
            return
        self._opener.config = settings.log
        for member in self._broker.members.values():
            member.log.config = settings.log


def take_broker(broker: Broker, settings: NodeSettings) -> None:
    """Let requests go by the settings of the broker room."""
    broker.config = settings.broker


def take_limits(listener: Listener, settings: NodeSettings) -> None:
    """Let new connections, and the sweeps over open ones, go by other limits.

    What clients may pin was divided at start and stays.
    """
    now = listener.limits
    listener.use_limits(replace(settings.net, unfinished_bytes_max=now.unfinished_bytes_max))
