"""Bytes of metadata records: a binary envelope around a compact JSON body.

    kind u16 │ version u16 │ body length u32 │ body (UTF-8 JSON object, keys sorted)

An entry of the log is one or more envelopes back to back. The envelope has no checksum of its own:
the frame of the file, or of the Raft log, has one around the whole entry. Encoding is canonical:
equal records give equal bytes.

Source: KIP-631 gives each record a type and a version of its own; the JSON body is ours, see ADR
0004. A reader refuses kinds and versions it does not know: skipping a record would make an image
that differs from everybody else's. It does not check whether a record makes sense: replay does.
"""

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from typing import Any

from penstock.base.endpoints import NamedEndpoint
from penstock.base.ids import TopicId
from penstock.base.ports import Buffer
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.controller.metadata import records as r
from penstock.controller.metadata.causes import Cause, read_old

_LATER = {
    r.MastershipBegun: {"detail", "unclean_epoch"},
    r.BrokerRegistered: {"listeners"},
}
"""Fields that version 3 of a kind has added. Those of version 2 are the others with a default."""
_OLD_WHERE_EMPTY: dict[type[Any], str] = {r.BrokerRegistered: "listeners"}
"""Without this field the record is written in the version before, which earlier releases read."""

ENTRY_BYTES_MAX = 16 << 20
"""An entry larger than this is refused before it is proposed: 16 MiB, some 1.5 million partitions
in one command, and far below what a Raft message may have to carry at once."""

_ENVELOPE = struct.Struct(">HHI")


def _int(value: object) -> int:
    if type(value) is not int:
        raise CorruptMetadata(f"expected a number, found {value!r}")
    return value


def _str(value: object) -> str:
    if type(value) is not str:
        raise CorruptMetadata(f"expected a text, found {value!r}")
    if not value.isascii():
        _check_text(value)
    return value


def _check_text(value: str) -> None:
    """JSON may name half a character: no text can hold it, and nothing could be written of it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise CorruptMetadata(f"expected a text, found {value!r}") from error


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise CorruptMetadata(f"expected true or false, found {value!r}")
    return value


def _cause(value: object) -> Cause:
    text = _str(value)
    try:
        return Cause(text)
    except ValueError as error:
        raise UnsupportedMetadata(f"a mastership for the cause {text!r}") from error


def _optional_str(value: object) -> str | None:
    return None if value is None else _str(value)


def _ints(value: object) -> tuple[int, ...]:
    if type(value) is not list:
        raise CorruptMetadata(f"expected a list, found {value!r}")
    return tuple(_int(item) for item in value)


def _endpoints(value: object) -> tuple[NamedEndpoint, ...]:
    if type(value) is not list or any(type(one) is not list or len(one) != 3 for one in value):
        raise CorruptMetadata(f"expected a list of listeners, found {value!r}")
    return tuple(NamedEndpoint(_str(name), _str(host), _int(port)) for name, host, port in value)


def _topic_id(value: object) -> TopicId:
    try:
        raw = bytes.fromhex(_str(value))
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise CorruptMetadata(f"expected a topic id of 32 hex digits, found {value!r}")
    return TopicId(raw)


_Reader = Callable[[object], object]

_POLICY: dict[str, _Reader] = {
    "policy_kind": _str,
    "policy_required": _int,
    "policy_minimum": _int,
}
_SHAPES: dict[type[Any], dict[str, _Reader]] = {
    r.ClusterCreated: {"cluster_id": _str},
    r.BrokerRegistered: {
        "broker_id": _int,
        "host": _str,
        "port": _int,
        "rack": _optional_str,
        "ha_host": _str,
        "ha_port": _int,
        "identity": _str,
        "incarnation": _str,
        "broker_epoch": _int,
        "directory_count": _int,
        "is_draining": _bool,
        "listeners": _endpoints,
    },
    r.ReplicaSetCreated: {
        "replica_set_id": _int,
        "replicas": _ints,
        **_POLICY,
        "next_replica_id": _int,
    },
    r.MastershipBegun: {
        "replica_set_id": _int,
        "master": _int,
        "leader_epoch": _int,
        "cause": _cause,
        "at_ms": _int,
        "last_master": _int,
        "detail": _str,
        "unclean_epoch": _int,
    },
    r.SyncStateSetChanged: {
        "replica_set_id": _int,
        "sync_state_set": _ints,
        "sync_state_set_epoch": _int,
    },
    r.TopicCreated: {
        "name": _str,
        "topic_id": _topic_id,
        "replica_set_ids": _ints,
        "internal": _bool,
    },
    r.PartitionsAdded: {
        "topic_id": _topic_id,
        "first_partition": _int,
        "replica_set_ids": _ints,
    },
    r.TopicDeleted: {"topic_id": _topic_id},
    r.ConfigChanged: {
        "resource_type": _int,
        "resource_name": _str,
        "key": _str,
        "value": _optional_str,
    },
    r.ProducerIdBlockAllocated: {
        "broker_id": _int,
        "first_producer_id": _int,
        "next_producer_id": _int,
    },
    r.BrokerFenced: {"broker_id": _int},
    r.BrokerDrained: {"broker_id": _int, "is_draining": _bool},
    r.BrokerRemoved: {"broker_id": _int},
    r.ReplicaRegistered: {
        "replica_set_id": _int,
        "broker_id": _int,
        "replica_id": _int,
        "log_id": _str,
    },
    r.ReplicasChanged: {"replica_set_id": _int, "replicas": _ints},
    r.AckPolicyChanged: {"replica_set_id": _int, **_POLICY},
    r.CopiesFloorChanged: {"replica_set_id": _int, "copies_floor": _int},
    r.UncleanElectionChanged: {"replica_set_id": _int, "is_allowed": _bool},
    r.DefaultPolicyChanged: {**_POLICY},
    r.FailoverChanged: {"is_enabled": _bool},
}
_CLASSES: dict[int, type[Any]] = {cls.KIND: cls for cls in _SHAPES}
assert len(_CLASSES) == len(r.RecordKind)


def _shapes_by_version(cls: type[Any]) -> list[dict[str, _Reader]]:
    """Return the fields of version 1 (those without a default), of 2 and of 3, as far as it is."""
    shape, later = _SHAPES[cls], _LATER.get(cls, set())
    first = {one.name: shape[one.name] for one in fields(cls) if one.default is MISSING}
    second = {name: read for name, read in shape.items() if name not in later}
    versions = [first]
    versions += [second] if len(second) > len(first) else []
    return [*versions, shape] if later else versions


_VERSIONS = {cls: _shapes_by_version(cls) for cls in _SHAPES}
_VERSIONS[r.MastershipBegun][1]["cause"] = _str  # with its detail, see `_of_version_2`


def _version(cls: type[Any]) -> int:
    """Return the newest version of records of this class."""
    return len(_VERSIONS[cls])


def _version_of(record: r.MetadataRecord) -> int:
    """Return the version that this record is written in."""
    newest = _version(type(record))
    new_field = _OLD_WHERE_EMPTY.get(type(record))
    return newest - 1 if new_field is not None and not getattr(record, new_field) else newest


def encode_records(records: Iterable[r.MetadataRecord]) -> bytes:
    """Return the envelopes of `records` back to back: one log entry, or a snapshot's body."""
    return b"".join([_encode(record) for record in records])


def decode_records(entry: Buffer) -> list[r.MetadataRecord]:
    """Return the records of an entry, in order.

    Raises:
        CorruptMetadata: lengths or fields that can not be what was written.
        UnsupportedMetadata: a kind or version of a newer release.
    """
    view = memoryview(entry)
    found: list[r.MetadataRecord] = []
    at = 0
    while at < len(view):
        if len(view) - at < _ENVELOPE.size:
            raise CorruptMetadata(f"{len(view) - at} bytes are no envelope")
        kind, version, length = _ENVELOPE.unpack_from(view, at)
        at += _ENVELOPE.size
        if length > len(view) - at:
            raise CorruptMetadata(f"a body of {length} bytes in {len(view) - at}")
        found.append(_decode(kind, version, view[at : at + length]))
        at += length
    return found


def _encode(record: r.MetadataRecord) -> bytes:
    found: dict[str, object] = {}
    version = _version_of(record)
    for name in _VERSIONS[type(record)][version - 1]:
        value = getattr(record, name)
        found[name] = value.hex() if isinstance(value, bytes) else value
    body = json.dumps(found, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    return _ENVELOPE.pack(record.KIND, version, len(body)) + body


def _decode(kind: int, version: int, body: memoryview) -> r.MetadataRecord:
    record_class = _CLASSES.get(kind)
    if record_class is None or not 1 <= version <= _version(record_class):
        raise UnsupportedMetadata(
            f"metadata record of kind {kind}, version {version}: a newer release wrote it;"
            " start that release again"
        )
    try:
        found = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise CorruptMetadata(f"record of kind {kind} is not JSON: {error}") from error
    shape = _VERSIONS[record_class][version - 1]
    if type(found) is not dict or found.keys() != shape.keys():
        raise CorruptMetadata(f"record of kind {kind} has the wrong fields")
    values = {name: read(found[name]) for name, read in shape.items()}
    if record_class is r.MastershipBegun and version == 2:
        values |= _of_version_2(values)
    record: r.MetadataRecord = record_class(**values)
    return record


def _of_version_2(values: dict[str, Any]) -> dict[str, object]:
    """Return the fields of a mastership whose cause and detail were one text."""
    cause, detail = read_old(values["cause"])
    found: dict[str, object] = {"cause": cause, "detail": detail}
    if cause is Cause.UNCLEAN:
        found["unclean_epoch"] = values["leader_epoch"]
    return found
