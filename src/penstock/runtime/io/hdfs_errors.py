"""What errors of `hdfs-native` mean. Its own are told by their types, those of a NameNode by text:

    RuntimeError('RPCError("org.apache.hadoop.security.AccessControlException", "Permission ...

A NameNode that ends a connection with an error, as one with Kerberos does, is told of as one that
went away; the library drops what it said.

Source: docs/adr/0174; the library's error.rs, 0.14.7.
"""

import re

from penstock.tier.errors import (
    CredentialsRefused,
    ObjectNotFound,
    PreconditionFailed,
    StoreCanNot,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)

REASON_CHARACTERS_MAX = 300
PANIC_MODULE = "pyo3_runtime"
"""Of the type of errors that the library did not expect itself; not an Exception."""

_OF_SERVER = re.compile(r'(?:Fatal)?RPCError\("[\w.]*?([\w$]+)", "(.*)"\)', re.DOTALL)
_OF_LIBRARY = re.compile(r'(\w+)(?:\("(.*)"\))?', re.DOTALL)
_LINE_END = re.compile(r"\\[nr]|[\n\r]")
_CREDENTIALS = frozenset(
    {"AccessControlException", "AuthorizationException", "SecretManager$InvalidToken"}
) | {"SaslException", "GSSException", "SASLError", "GSSAPIError", "NoSASLMechanism"}
_NOT_EMPTY = "PathIsNotEmptyDirectoryException"
_ASK_LATER = "RetriableException"
_SAFE_MODE = "safe mode"
_MACHINES = ": [DatanodeInfoProto"
"""Begins some hundred words about each DataNode that was asked."""
_ENDED = "RPC listener disconnected"
_KERBEROS = (
    "the NameNode ended the connection (so does one that wants Kerberos, which is not supported)"
)


class DirectoryNotEmpty(StoreError):
    """A directory that was to go has something in it."""


def as_port_has_it(name: str, error: BaseException) -> StoreError:
    """Return an error of the library as one of the port."""
    text = str(error)
    if type(error) is RuntimeError:  # and no NotImplementedError
        return _by_text(name, text)
    if isinstance(error, OSError) and _ENDED in text:
        return StoreUnavailable(name, _KERBEROS)
    return _kind_by_type(error)(name, _first_line(text) or type(error).__name__)


def _kind_by_type(error: BaseException) -> type[StoreError]:
    match error:
        case FileNotFoundError() | IsADirectoryError():
            return ObjectNotFound
        case FileExistsError():
            return PreconditionFailed
        case NotImplementedError():
            return StoreCanNot
        case _:
            return StoreUnavailable


def _by_text(name: str, text: str) -> StoreError:
    found = _OF_SERVER.match(text) or _OF_LIBRARY.match(text)
    if found is None:
        return StoreUnavailable(name, _first_line(text))
    kind, told = found[1], _first_line(found[2] or "").partition(_MACHINES)[0]
    reason = kind if found.end() == len(text) else _first_line(text)
    reason = f"{kind}: {told}" if told else reason
    return _kind_of(kind, told)(name, reason)


def _kind_of(kind: str, told: str) -> type[StoreError]:
    if kind == _NOT_EMPTY:
        return DirectoryNotEmpty
    if kind in _CREDENTIALS:
        return CredentialsRefused
    if kind == _ASK_LATER and _SAFE_MODE not in told.lower():
        return StoreThrottled
    return StoreUnavailable


def _first_line(text: str) -> str:
    """Return what an error says, without the stack of the server."""
    return _LINE_END.split(text, maxsplit=1)[0].strip()[:REASON_CHARACTERS_MAX]
