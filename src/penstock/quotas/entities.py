"""Whose quota it is: a user, a client id, both, or an address; each by name or by default.

    user=alice                         all that alice does, in one bucket
    user=alice, client-id=default      each client id of alice, a bucket for each
    ip=10.0.0.1                        connections from this address

Source: KIP-546; Kafka `ClientQuotaEntity`, `ClientQuotaControlManager.validateEntity`. Departure:
an ip is an address; host names are refused, since nothing here asks a name server.
"""

from collections.abc import Iterable
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from penstock.quotas.errors import InvalidQuota

NAME_CHARACTERS_MAX: Final = 1_024


class QuotaKind(StrEnum):
    """What a part of a quota's entity names; the texts are Kafka's."""

    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


KINDS: Final = frozenset(QuotaKind)


class QuotaPart(NamedTuple):
    """One part of an entity; `name` None is the default of the kind."""

    kind: QuotaKind
    name: str | None


QuotaEntity = tuple[QuotaPart, ...]
"""Whose quota it is, such as a user with a client id; parts by kind, each at most once."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these (kind, name). Raises InvalidQuota."""
    found: dict[QuotaKind, QuotaPart] = {}
    for kind, name in parts:
        if kind not in KINDS:
            raise InvalidQuota(f"Unhandled client quota entity type: {kind[:100]}")
        part = QuotaPart(QuotaKind(kind), _name(QuotaKind(kind), name))
        if part.kind in found:
            raise InvalidQuota(f"The entity type {kind} is there twice")
        found[part.kind] = part
    if not found:
        raise InvalidQuota("Invalid empty client quota entity")
    if QuotaKind.IP in found and len(found) > 1:
        raise InvalidQuota("Invalid quota entity combination: ip stands alone")
    return tuple(found[kind] for kind in sorted(found))


def _name(kind: QuotaKind, name: str | None) -> str | None:
    if name is None:
        return None
    if not name:
        raise InvalidQuota(f"Empty {kind} not supported")
    if len(name) > NAME_CHARACTERS_MAX:
        raise InvalidQuota(f"A {kind} has {NAME_CHARACTERS_MAX} characters at most")
    return address_of(name) if kind is QuotaKind.IP else name


def address_of(text: str) -> str:
    """Return an address in its only form: that of IPv4 by IPv6 is that of IPv4.

    Raises InvalidQuota.
    """
    try:
        address = ip_address(text)
    except ValueError as error:
        raise InvalidQuota(f"{text[:100]} is not a valid IP") from error
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def text_of(entity: QuotaEntity) -> str:
    """Return the entity for people."""
    return ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
