"""Who votes: the payload of configuration entries, and a part of every snapshot.

    first form    count u16 | per voter: peer id i32 | address length u16 | address UTF-8
    second form   FF FF | form u8 = 2
                  | count u16 | per voter: as above | directory length u8 | directory id UTF-8
                  | count u16 | per vacant seat: peer id i32 | address length u16 | address UTF-8

Big-endian, in ascending order of the ids, so that equal configurations encode to equal bytes. The
first form is written if no voter has a directory id and no seat is vacant.

A voter is a peer id with the id of the directory that holds its log and its votes. The same peer
with another directory has lost both: it does not vote and does not count (ADR 0027). Its seat
stays vacant until the new directory has caught up. The directory id "" stands for a member that
was set up before there were directory ids.

Source: Raft thesis 4.1: one voter is added or removed at a time, so that any majority of the old
configuration shares a member with any majority of the new one; KIP-853 for voters by directory.
Learners are not part of it.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from penstock.base.ids import PeerId
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_DIRECTORY, DirectoryId

Peers = tuple[tuple[PeerId, str], ...]
"""Peer ids with their addresses, in ascending order of the ids."""

_COUNT = struct.Struct(">H")
_VOTER = struct.Struct(">iH")
_FORM_2 = b"\xff\xff\x02"
_NOBODY: Mapping[PeerId, str] = MappingProxyType({})
_NO_DIRECTORIES: Mapping[PeerId, DirectoryId] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The voters with their addresses ("host:port"), in ascending order of their ids."""

    voters: Peers = ()
    directories: tuple[DirectoryId, ...] = ()
    """The directory id of each voter, in their order; empty where none has one."""
    vacant: Peers = ()
    """Seats of voters that lost their directory. They do not count."""
    voter_ids: tuple[PeerId, ...] = field(init=False, repr=False, compare=False)
    """The voters' peer ids, ascending. Kept, since each tick asks for them."""
    _directories: Mapping[PeerId, DirectoryId] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert _is_in_order(self.voters), self.voters
        assert _is_in_order(self.vacant), self.vacant
        assert not self.directories or any(self.directories), "empty if no voter has a directory id"
        assert len(self.directories) in {0, len(self.voters)}, self.directories
        voter_ids = tuple(peer_id for peer_id, _ in self.voters)
        directories = dict(zip(voter_ids, self.directories, strict=False))
        object.__setattr__(self, "voter_ids", voter_ids)
        object.__setattr__(self, "_directories", directories)

    @classmethod
    def of(
        cls,
        addresses: Mapping[PeerId, str],
        directories: Mapping[PeerId, DirectoryId] = _NO_DIRECTORIES,
        vacant: Mapping[PeerId, str] = _NOBODY,
    ) -> Self:
        """Return the configuration of these voters, in whatever order they come."""
        ids = tuple(directories.get(peer_id, NO_DIRECTORY) for peer_id in sorted(addresses))
        return cls(
            voters=tuple(sorted(addresses.items())),
            directories=ids if any(ids) else (),
            vacant=tuple(sorted(vacant.items())),
        )

    @property
    def addresses(self) -> dict[PeerId, str]:
        """Address of each voter."""
        return dict(self.voters)

    def has(self, peer_id: PeerId) -> bool:
        """Whether a voter has this peer id, whatever its directory."""
        return peer_id in self.voter_ids

    def directory_of(self, peer_id: PeerId) -> DirectoryId:
        """Return the directory with which this voter votes; "" for one without, and for others."""
        return self._directories.get(peer_id, NO_DIRECTORY)

    def is_voter(self, peer_id: PeerId, directory_id: DirectoryId) -> bool:
        """Whether this peer votes with this directory."""
        return self.has(peer_id) and self.directory_of(peer_id) == directory_id

    def with_voter(
        self, peer_id: PeerId, address: str, directory_id: DirectoryId = NO_DIRECTORY
    ) -> "Configuration":
        """Return a configuration in which `peer_id` votes with this directory at `address`."""
        return Configuration.of(
            {**self.addresses, peer_id: address},
            {**self._directories, peer_id: directory_id},
            _without(self.vacant, peer_id),
        )

    def without_voter(self, peer_id: PeerId) -> "Configuration":
        """Return a configuration in which `peer_id` does not vote and has no seat."""
        return Configuration.of(
            _without(self.voters, peer_id), self._directories, _without(self.vacant, peer_id)
        )

    def with_vacancy(self, peer_id: PeerId) -> "Configuration":
        """Return a configuration in which the seat of voter `peer_id` is vacant."""
        vacant = {**dict(self.vacant), peer_id: self.addresses[peer_id]}
        return Configuration.of(_without(self.voters, peer_id), self._directories, vacant)

    def encode(self) -> bytes:
        """Return the bytes as the module's docstring draws them."""
        if not self.directories and not self.vacant:
            seats = b"".join(_seat(*voter) for voter in self.voters)
            return _COUNT.pack(len(self.voters)) + seats
        parts = [_FORM_2, _COUNT.pack(len(self.voters))]
        for peer_id, address in self.voters:
            directory_id = self.directory_of(peer_id).encode()
            parts += (_seat(peer_id, address), bytes((len(directory_id),)), directory_id)
        parts.append(_COUNT.pack(len(self.vacant)))
        parts += (_seat(*seat) for seat in self.vacant)
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Return what `encode` wrote. Raises InvalidMessage for anything else."""
        try:
            return cls._decode(payload)
        except (struct.error, UnicodeDecodeError, ValueError, IndexError) as error:
            raise InvalidMessage(f"the configuration cannot be decoded: {error}") from error

    @classmethod
    def _decode(cls, payload: bytes) -> Self:
        is_second = payload.startswith(_FORM_2)
        reader = _Reader(payload, len(_FORM_2) if is_second else 0)
        voters, directories, vacant = [], {}, []
        for _ in range(reader.count()):
            voters.append(reader.seat())
            directories[voters[-1][0]] = reader.directory_id() if is_second else NO_DIRECTORY
        if is_second:
            vacant = [reader.seat() for _ in range(reader.count())]
        seated = not dict(voters).keys() & dict(vacant).keys()
        whole = reader.position == len(payload) and _is_in_order(voters) and _is_in_order(vacant)
        if not (whole and seated):
            raise ValueError("wrong length or order")
        return cls.of(dict(voters), directories, dict(vacant))


class _Reader:
    """Reads the fields in order. `position` lies beyond the payload if a text was cut short."""

    def __init__(self, payload: bytes, position: int) -> None:
        self._payload = payload
        self.position = position

    def count(self) -> int:
        """Read a count."""
        (count,) = _COUNT.unpack_from(self._payload, self.position)
        self.position += _COUNT.size
        return int(count)

    def seat(self) -> tuple[PeerId, str]:
        """Read a peer id and an address."""
        peer_id: PeerId
        peer_id, length = _VOTER.unpack_from(self._payload, self.position)
        self.position += _VOTER.size
        return peer_id, self._text(length)

    def directory_id(self) -> DirectoryId:
        """Read a directory id."""
        length = self._payload[self.position]
        self.position += 1
        return DirectoryId(self._text(length))

    def _text(self, length: int) -> str:
        text = self._payload[self.position : self.position + length]
        self.position += length
        return text.decode()


def _seat(peer_id: PeerId, address: str) -> bytes:
    text = address.encode()
    return _VOTER.pack(peer_id, len(text)) + text


def _without(peers: Peers, peer_id: PeerId) -> dict[PeerId, str]:
    return {known: address for known, address in peers if known != peer_id}


def _is_in_order(peers: "list[tuple[PeerId, str]] | Peers") -> bool:
    ids = [peer_id for peer_id, _ in peers]
    return ids == sorted(dict.fromkeys(ids))
