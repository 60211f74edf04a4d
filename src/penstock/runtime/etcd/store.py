"""The metadata log in etcd: its keys, and every transaction on them.

    <prefix>/<cluster id>/head          decimal: index of the last entry
                          leader        JSON, lease-held: who leads, and in which term
                          log/<index>   an entry; the index in 20 digits
                          snapshot      covers the entries up to its index
                          term          decimal: number of leaders so far
                          bulk/entry/<index>/<proposal id>/<part>
                          bulk/snapshot/<index>/<snapshot id>/<part>

The first five are one range of keys, so one watch reports every change in order. A leader is
identified by the revision at which its key was created. Every write of a leader compares it, so the
write of a replaced leader changes nothing, however late it arrives.

Source: etcd's own election recipe (client/v3/concurrency/election.go), with the comparison in every
write added. It keeps no state and takes no decision based on time.
"""

import string
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from penstock.base.errors import ConfigError
from penstock.controller.errors import CorruptMetadata
from penstock.runtime.etcd.client import EtcdClient
from penstock.runtime.etcd.entry import (
    INLINE_BYTES_MAX,
    Entry,
    EntryId,
    SnapshotHead,
    StoredEntry,
    checked,
    decode_entry,
    decode_snapshot_head,
    encode_entry,
    encode_snapshot_head,
    part_count,
    split_parts,
)
from penstock.runtime.etcd.wire import (
    KeyValue,
    OperationAnswer,
    Request,
    TxnAnswer,
    created_at,
    delete_range,
    get,
    get_range,
    has_value,
    modified_at,
    put,
    txn,
)

PAGE_ENTRIES = 32
"""Entries read at a time: 2 MiB of INLINE_BYTES_MAX each."""

PAGE_PARTS = 4
"""Parts read at a time: 2 MiB."""

_ID_LETTERS = frozenset(string.ascii_letters + string.digits + "-_.")


class LeaderKey(NamedTuple):
    """The leader key as read."""

    peer_id: int
    term: int
    nonce: str
    create_revision: int


class View(NamedTuple):
    """All small keys at one revision."""

    revision: int
    head: int
    leader: LeaderKey | None
    snapshot: SnapshotHead | None
    term: int
    term_revision: int


class Won(NamedTuple):
    """The own leader key, and the last entry when it was created."""

    leader: LeaderKey
    head: int


class _LeaderValue(msgspec.Struct):
    peer_id: int
    term: int
    nonce: str


class Store:
    """See the module. Every method raises EtcdUnavailable and EtcdRefused."""

    def __init__(self, client: EtcdClient, key_prefix: str, cluster_id: str) -> None:
        """Raises ConfigError for a cluster id that cannot be part of a key."""
        if not cluster_id or not _ID_LETTERS.issuperset(cluster_id):
            raise ConfigError(
                f"cluster id {cluster_id!r} can not name keys in etcd: use letters, digits, - _ ."
            )
        self.client = client
        self._base = f"{key_prefix}/{cluster_id}/"
        self.head_key = self._key("head")
        self.leader_key = self._key("leader")
        self.snapshot_key = self._key("snapshot")
        self.term_key = self._key("term")
        self.log_start = self._key("log/")
        self.watched = (self.head_key, self.term_key + b"\0")

    def index_of(self, key: bytes) -> int | None:
        """Return the index of an entry's key, None for any other key."""
        digits = key.removeprefix(self.log_start)
        return int(digits) if digits != key and digits.isdigit() else None

    async def view(self) -> View:
        """Read all small keys at once."""
        keys = (self.head_key, self.leader_key, self.snapshot_key, self.term_key)
        answer = await self.client.txn(txn([], [get(key) for key in keys]))
        head, leader, snapshot, term = (one.first() for one in _answers(answer, len(keys)))
        return View(
            revision=answer.header.revision,
            head=_number(head),
            leader=read_leader(leader),
            snapshot=decode_snapshot_head(snapshot.value) if snapshot else None,
            term=_number(term),
            term_revision=term.mod_revision if term else 0,
        )

    async def campaign(self, view: View, *, peer_id: int, nonce: str, lease_id: int) -> Won | None:
        """Become leader of the next term; return None if there is a leader already."""
        term = view.term + 1
        value = msgspec.json.encode(_LeaderValue(peer_id, term, nonce))
        answer = await self.client.txn(
            txn(
                [created_at(self.leader_key, 0), modified_at(self.term_key, view.term_revision)],
                [
                    put(self.leader_key, value, lease=lease_id),
                    put(self.term_key, b"%d" % term),
                    get(self.head_key),
                ],
            )
        )
        if not answer.succeeded:
            return None
        head = _answers(answer, 3)[2].first()
        return Won(LeaderKey(peer_id, term, nonce, answer.header.revision), _number(head))

    async def is_leader(self, leader: LeaderKey) -> bool:
        """Return whether a majority of etcd still has the key."""
        # Without a read in the transaction, etcd would answer from one member's state.
        request = txn([self._held_by(leader)], [get(self.leader_key)])
        return (await self.client.txn(request)).succeeded

    async def append(self, leader: LeaderKey, head: int, entries: Sequence[Entry]) -> bool:
        """Append `entries` after `head`; return False if they are not in the log and never will be.

        After EtcdUnavailable the outcome is unknown; repeating the call with the same entries
        resolves it.
        """
        for index, entry in enumerate(entries, head + 1):
            if len(entry.payload) > INLINE_BYTES_MAX and not await self._put_parts(
                leader, self._entry_parts(index, entry.entry_id), entry.payload
            ):
                return False
        last = head + len(entries)
        puts = [
            put(
                self._log_key(index),
                encode_entry(entry, in_parts=len(entry.payload) > INLINE_BYTES_MAX),
            )
            for index, entry in enumerate(entries, head + 1)
        ]
        answer = await self.client.txn(
            txn(
                # If an earlier attempt arrived, `head` has moved and this one changes nothing.
                [self._held_by(leader), self._head_is(head)],
                [*puts, put(self.head_key, b"%d" % last)],
                [get(self._log_key(head + 1))],
            )
        )
        if answer.succeeded:
            return True
        there = _answers(answer, 1)[0].first()
        return there is not None and decode_entry(there.value).entry_id == entries[0].entry_id

    async def entry_id(self, index: int) -> EntryId | None:
        """Return the id of an entry, None if it is not there."""
        answer = await self.client.txn(txn([], [get(self._log_key(index))]))
        found = _answers(answer, 1)[0].first()
        return decode_entry(found.value).entry_id if found else None

    async def entries(self, first: int, last: int) -> list[Entry]:
        """Read entries from `first` on, up to PAGE_ENTRIES and `last` (inclusive).

        It ends before one that was trimmed in the meantime.
        """
        answer = await self.client.txn(
            txn(
                [],
                [get_range(self._log_key(first), self._log_key(last + 1), limit=PAGE_ENTRIES)],
            )
        )
        found = _answers(answer, 1)[0].response_range
        read: list[Entry] = []
        for pair in found.kvs if found is not None else ():
            index = first + len(read)
            if pair.key != self._log_key(index):
                break
            entry = await self.whole(index, decode_entry(pair.value))
            if entry is None:
                break
            read.append(entry)
        return read

    async def whole(self, index: int, stored: StoredEntry) -> Entry | None:
        """Return the entry with its payload; None if the parts were trimmed in the meantime."""
        payload = stored.payload
        if payload is None:
            prefix = self._entry_parts(index, stored.entry_id)
            payload = await self._get_parts(prefix, stored.crc, stored.length)
        return None if payload is None else Entry(stored.entry_id, payload)

    async def snapshot(self, head: SnapshotHead) -> bytes | None:
        """Read a snapshot; None if a newer one has replaced it in the meantime."""
        prefix = self._snapshot_parts(head.last_index, head.snapshot_id)
        return await self._get_parts(prefix, head.crc, head.length)

    async def trim(
        self, leader: LeaderKey, index: int, entry_id: EntryId, *, snapshot_id: bytes, data: bytes
    ) -> bool:
        """Replace the entries up to `index` by a snapshot; return False if another process leads.

        The snapshot is published and the log cut in one transaction, so that a reader of the small
        keys finds either the entries or the snapshot.
        """
        parts = self._snapshot_parts(index, snapshot_id)
        if not await self._put_parts(leader, parts, data):
            return False
        head = SnapshotHead(index, entry_id, snapshot_id, crc32c(data), len(data))
        answer = await self.client.txn(
            txn(
                [self._held_by(leader)],
                [
                    put(self.snapshot_key, encode_snapshot_head(head)),
                    delete_range(self.log_start, self._log_key(index + 1)),
                    delete_range(
                        self._key("bulk/entry/"), self._key(f"bulk/entry/{index + 1:020}")
                    ),
                    delete_range(self._key("bulk/snapshot/"), parts),
                    delete_range(_after(parts), _after(self._key("bulk/snapshot/"))),
                ],
            )
        )
        return answer.succeeded

    async def _put_parts(self, leader: LeaderKey, prefix: bytes, data: bytes) -> bool:
        for number, part in enumerate(split_parts(data)):
            request = txn([self._held_by(leader)], [put(prefix + b"%06d" % number, part)])
            if not (await self.client.txn(request)).succeeded:
                return False
        return True

    async def _get_parts(self, prefix: bytes, crc: int, length: int) -> bytes | None:
        count = part_count(length)
        parts: list[bytes] = []
        while len(parts) < count:
            start = prefix + b"%06d" % len(parts)
            request = txn([], [get_range(start, _after(prefix), limit=PAGE_PARTS)])
            found = _answers(await self.client.txn(request), 1)[0].response_range
            if found is None or not found.kvs:
                return None
            parts += [pair.value for pair in found.kvs]
        return checked(b"".join(parts), crc, length)

    def _head_is(self, head: int) -> Request:
        return has_value(self.head_key, b"%d" % head) if head else created_at(self.head_key, 0)

    def _held_by(self, leader: LeaderKey) -> Request:
        return created_at(self.leader_key, leader.create_revision)

    def _key(self, name: str) -> bytes:
        return (self._base + name).encode()

    def _log_key(self, index: int) -> bytes:
        return self._key(f"log/{index:020}")

    def _entry_parts(self, index: int, entry_id: EntryId) -> bytes:
        return self._key(f"bulk/entry/{index:020}/{entry_id.proposal_id.hex()}/")

    def _snapshot_parts(self, index: int, snapshot_id: bytes) -> bytes:
        return self._key(f"bulk/snapshot/{index:020}/{snapshot_id.hex()}/")


def read_leader(pair: KeyValue | None) -> LeaderKey | None:
    """Return the content of a leader key. Raises CorruptMetadata."""
    if pair is None:
        return None
    try:
        value = msgspec.json.decode(pair.value, type=_LeaderValue)
    except msgspec.DecodeError as error:
        raise CorruptMetadata(f"the leader key in etcd is not valid: {error}") from error
    return LeaderKey(value.peer_id, value.term, value.nonce, pair.create_revision)


def _number(pair: KeyValue | None) -> int:
    if pair is None:
        return 0
    if not pair.value.isdigit():
        raise CorruptMetadata(f"{pair.key!r} in etcd is not a number: {pair.value[:20]!r}")
    return int(pair.value)


def _answers(answer: TxnAnswer, count: int) -> list[OperationAnswer]:
    """Return the answers to the operations. Raises CorruptMetadata unless there are `count`."""
    if len(answer.responses) != count:
        raise CorruptMetadata(f"etcd answered {len(answer.responses)} of {count} operations")
    return answer.responses


def _after(prefix: bytes) -> bytes:
    """Return the first key after all that begin with `prefix`, which ends with a slash."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
