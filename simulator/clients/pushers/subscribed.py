"""A client instance's subscription: what it has configured, and what brokers may ask of it.

    change 0      nothing is configured
    change n      a prefix of metrics and an interval that no other change has; or nothing again

Brokers follow the metadata log, each at its time: what one asks for is one of the changes, never an
earlier one than it asked for before.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import BrokerLink, LinkFailed

METRICS_TYPE, SET, DELETE = 16, 0, 1
ALTER_VERSION = 1
INTERVAL_MS_MIN = 100
INTERVALS_MS = 300
"""So many ms between the shortest and the longest."""
NOT_DONE = ErrorCode.UNSUPPORTED_VERSION
"""The level of the metadata was taken back: nothing was changed."""


class Vague(LinkFailed):
    """Nobody has said whether the subscription was changed."""


class Wanted(NamedTuple):
    """What a change asks for; nothing is asked without metrics."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Subscribed:
    """One client id with a subscription of its own; given up if nobody knows how it stands."""

    client_id: str
    instance: UUID
    changes: list[Wanted] = field(default_factory=lambda: [Wanted()])
    numbers: dict[tuple[UUID, Wanted], int] = field(default_factory=dict)
    """What brokers called what they asked for."""
    is_certain: bool = True

    async def change(self, link: BrokerLink, draw: Random, *, is_removal: bool) -> None:
        """Configure something else. Raises Vague."""
        wanted = Wanted()
        names = {"match": f"client_id={self.client_id}"}
        if not is_removal:
            interval_ms = INTERVAL_MS_MIN + draw.randrange(INTERVALS_MS)
            wanted = Wanted((f"{self.client_id}.{len(self.changes)}.",), interval_ms)
            names |= {"metrics": wanted.metrics[0], "interval.ms": str(interval_ms)}
        else:
            names |= {"metrics": "", "interval.ms": ""}
        operation = DELETE if is_removal else SET
        edits = [
            {"name": name, "config_operation": operation, "value": value}
            for name, value in names.items()
        ]
        resource = {
            "resource_type": METRICS_TYPE,
            "resource_name": self.client_id,
            "configs": edits,
        }
        fields = {"resources": [resource], "validate_only": False}
        try:
            answer = await link.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION, fields)
        except LinkFailed as error:
            self.is_certain = False
            raise Vague(str(error)) from error
        code = answer.responses[0].error_code
        if code == NOT_DONE:
            return
        if code != ErrorCode.NONE:
            self.is_certain = False
            raise Vague(f"a subscription is answered with {code!r}")
        self.changes.append(wanted)

    def heard(self, answer: Any, since: int) -> tuple[int, str]:
        """Return the number of the change that a broker asks for, and what is wrong with it.

        `since` is what the same process asked for before.
        """
        metrics = tuple(answer.requested_metrics)
        interval_ms = round(answer.push_interval.total_seconds() * 1_000)
        later = [
            at for at in range(since, len(self.changes)) if self.changes[at].metrics == metrics
        ]
        if not later:
            return since, f"{metrics} are asked for, and {self.changes[since:]} were configured"
        wanted = self.changes[later[0]]
        if metrics and interval_ms != wanted.interval_ms:
            return later[0], f"{interval_ms} ms are asked for, and not {wanted}"
        key = answer.client_instance_id, wanted
        if metrics and self.numbers.setdefault(key, answer.subscription_id) != (
            answer.subscription_id
        ):
            return later[0], f"{wanted} is {answer.subscription_id}, and {self.numbers[key]} before"
        return later[0], ""
