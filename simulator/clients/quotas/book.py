"""Quotas that a simulated client sets, and what of them is certain.

    acknowledged     every broker has it in the end, and the one that was asked has it now
    no answer        the client id is given up: nothing is said of it any more

Source: KIP-546.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.wire import BrokerLink, LinkFailed

VERSION = 1
EXACT, ANY = 0, 2
USER, CLIENT = "user", "client-id"
ANONYMOUS = "ANONYMOUS"
"""As whom clients of a listener without a door are known."""
LEVELS = (
    lambda name: {CLIENT: name},
    lambda name: {CLIENT: name, USER: ANONYMOUS},
    lambda name: {CLIENT: name, USER: None},
)
"""Entities that stand for one client id; None is every user by default."""
NOT_DONE = ErrorCode.UNSUPPORTED_VERSION
"""The level of the metadata was taken back: nothing was changed."""

Values = dict[str, float]
Entity = Mapping[str, str | None]


class Vague(LinkFailed):
    """Nobody has said whether a quota was changed."""


@dataclass(slots=True)
class Entry:
    """The quotas of one client id."""

    client_id: str
    entity: Entity
    values: Values = field(default_factory=dict)
    is_certain: bool = True

    async def alter(self, link: BrokerLink, values: Mapping[str, float | None]) -> bool:
        """Set quotas, or take them away; False if that is not done now. Raises Vague."""
        ops = [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ]
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in self.entity.items()]
        fields = {"entries": [{"entity": parts, "ops": ops}], "validate_only": False}
        try:
            answer = await link.call(ApiKey.ALTER_CLIENT_QUOTAS, VERSION, fields)
        except LinkFailed as error:
            self.is_certain = False
            raise Vague(str(error)) from error
        code = answer.entries[0].error_code
        if code == NOT_DONE:
            return False
        if code != ErrorCode.NONE:
            self.is_certain = False
            raise Vague(f"a quota is answered with {code!r}")
        left = {**self.values, **values}
        self.values = {key: value for key, value in left.items() if value is not None}
        return True


def draw_entity(client_id: str, draw: Random) -> Entity:
    """Return an entity that stands for a client id."""
    return draw.choice(LEVELS)(client_id)


async def described(link: BrokerLink) -> dict[str, tuple[Entity, Values]]:
    """Return all quotas of client ids that a broker knows, by client id. Raises LinkFailed."""
    component = {"entity_type": CLIENT, "match_type": ANY, "match": None}
    fields = {"components": [component], "strict": False}
    answer: Any = await link.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, VERSION, fields)
    if answer.error_code != ErrorCode.NONE:
        raise LinkFailed(f"quotas are not told: {answer.error_code!r}")
    found: dict[str, tuple[Entity, Values]] = {}
    for one in answer.entries:
        entity = {part.entity_type: part.entity_name for part in one.entity}
        values = {value.key: float(value.value) for value in one.values}
        found[str(entity[CLIENT])] = entity, values
    return found
