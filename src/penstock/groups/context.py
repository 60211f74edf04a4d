"""What the parts of the coordinator share: settings, time, deadlines, journal, counters.

It has no behaviour; it exists so that each part takes one argument instead of eight.

Source: Kafka, GroupMetadata.generateMemberId for the form of member ids.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.base.ports import Clock
from penstock.configs.group_keys import GROUP_CONFIGS
from penstock.coordinator.deadlines import Deadlines
from penstock.coordinator.outbox import Outbox
from penstock.coordinator.portions import Portions
from penstock.groups.classic.group import Group
from penstock.groups.classic.member import Member
from penstock.groups.config import GroupConfig
from penstock.groups.counters import GroupCounters
from penstock.groups.deadlines import DeadlineKey
from penstock.groups.journal import GroupWriter

CLIENT_ID_IN_MEMBER_ID_MAX = 128
SESSION_KEY = "consumer.session.timeout.ms"
INTERVAL_KEY = "consumer.heartbeat.interval.ms"
SHARE_SESSION_KEY = "share.session.timeout.ms"
SHARE_INTERVAL_KEY = "share.heartbeat.interval.ms"
PROMPT_INTERVAL_MS = 1_000
"""How often a member is to speak where nobody has set it for its group: it hears of a change of its
group only then."""
HEARTBEATS_PER_SECOND = 1_000
"""What all members together may send before they are told to speak less often: a quiet heartbeat is
answered from memory, and still is a request."""


class AssignedTimes(NamedTuple):
    """How long a member of a group may be silent, and how often it is to speak, in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


@dataclass(slots=True, kw_only=True)
class Context:
    """Given to every part. `new_suffix` returns the unique end of a member id.

    `config` may be replaced while the broker runs; nothing else is.
    """

    config: GroupConfig
    clock: Clock
    deadlines: Deadlines[DeadlineKey]
    writer: GroupWriter
    counters: GroupCounters
    outbox: Outbox
    portions: Portions
    new_suffix: Callable[[], str]
    overrides: Callable[[str], Mapping[str, str]]
    """Returns the keys that are set for a group by AlterConfigs."""
    newcomers: dict[Member, Group] = field(default_factory=dict)
    """Members whose first rebalance is not complete, with their groups."""

    def consumer_times(self, group_id: str) -> AssignedTimes:
        """Return the times of one consumer group.

        Its own keys count. Else the session is Kafka's default, and the interval as long as the
        members of this coordinator make it, at most Kafka's default.
        """
        keys = self.overrides(group_id)
        session_ms = keys.get(SESSION_KEY, GROUP_CONFIGS[SESSION_KEY].default)
        interval_ms = keys.get(INTERVAL_KEY)
        return AssignedTimes(
            int(session_ms),
            self._paced_ms(int(GROUP_CONFIGS[INTERVAL_KEY].default))
            if interval_ms is None
            else int(interval_ms),
        )

    def share_times(self, group_id: str) -> AssignedTimes:
        """Return the times of one share group: its own keys, or the settings, paced likewise."""
        keys = self.overrides(group_id)
        session_ms, interval_ms = keys.get(SHARE_SESSION_KEY), keys.get(SHARE_INTERVAL_KEY)
        config = self.config
        return AssignedTimes(
            config.share_session_timeout_ms if session_ms is None else int(session_ms),
            self._paced_ms(config.share_heartbeat_interval_ms)
            if interval_ms is None
            else int(interval_ms),
        )

    def _paced_ms(self, longest_ms: int) -> int:
        # Each member has a deadline, and there are few others.
        share_ms = len(self.deadlines) * 1_000 // HEARTBEATS_PER_SECOND
        return min(max(share_ms, PROMPT_INTERVAL_MS), longest_ms)

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        """Return a member id as in Kafka: instance id or client id, then a unique suffix."""
        owner = client_id[:CLIENT_ID_IN_MEMBER_ID_MAX] if instance_id is None else instance_id
        return f"{owner}-{self.new_suffix()}"
