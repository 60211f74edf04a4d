"""Who votes: the payload of configuration entries, and a part of every snapshot.

    count u16 | per voter: peer id i32 | address length u16 | address UTF-8

Big-endian; voters in ascending order of their ids, so that equal configurations are equal bytes.

Source: Raft thesis 4.1: one voter is added or removed at a time, so that any majority of the old
configuration shares a member with any majority of the new one. Learners do not stand here.
"""

import struct
from dataclasses import dataclass
from typing import Self

from penstock.raft.errors import InvalidMessage

_COUNT = struct.Struct(">H")
_VOTER = struct.Struct(">iH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The voters with their addresses ("host:port"), in ascending order of their ids."""

    voters: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        ids = [peer_id for peer_id, _ in self.voters]
        assert ids == sorted(dict.fromkeys(ids)), ids

    @classmethod
    def of(cls, addresses: dict[int, str]) -> Self:
        """Return the configuration of these voters, in whatever order they come."""
        return cls(voters=tuple(sorted(addresses.items())))

    @property
    def voter_ids(self) -> tuple[int, ...]:
        """The voters' peer ids, ascending."""
        return tuple(peer_id for peer_id, _ in self.voters)

    @property
    def addresses(self) -> dict[int, str]:
        """Address of each voter."""
        return dict(self.voters)

    def has(self, peer_id: int) -> bool:
        """Whether this peer votes."""
        return any(voter == peer_id for voter, _ in self.voters)

    def with_voter(self, peer_id: int, address: str) -> "Configuration":
        """Return a configuration in which `peer_id` votes and is reached at `address`."""
        return Configuration.of({**self.addresses, peer_id: address})

    def without_voter(self, peer_id: int) -> "Configuration":
        """Return a configuration in which `peer_id` does not vote."""
        return Configuration.of({p: a for p, a in self.voters if p != peer_id})

    def encode(self) -> bytes:
        """Return the bytes drawn above."""
        parts = [_COUNT.pack(len(self.voters))]
        for peer_id, address in self.voters:
            text = address.encode()
            parts.append(_VOTER.pack(peer_id, len(text)))
            parts.append(text)
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Return what `encode` wrote. Raises InvalidMessage for anything else."""
        try:
            return cls._decode(payload)
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise InvalidMessage(f"a configuration that can not be read: {error}") from error

    @classmethod
    def _decode(cls, payload: bytes) -> Self:
        (count,) = _COUNT.unpack_from(payload)
        position = _COUNT.size
        voters = []
        for _ in range(count):
            peer_id, length = _VOTER.unpack_from(payload, position)
            position += _VOTER.size
            text = payload[position : position + length]
            position += length
            voters.append((peer_id, text.decode()))
        ids = [peer_id for peer_id, _ in voters]
        if position != len(payload) or ids != sorted(dict.fromkeys(ids)):
            raise ValueError("wrong length or order")
        return cls(voters=tuple(voters))
