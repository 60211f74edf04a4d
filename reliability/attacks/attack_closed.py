"""Attacks on a port with TLS and SASL, each a context that lasts as long as its block.

by strangers:
    closed-drips     1,000 connections that send a byte a second of the first record of TLS
    closed-hellos    1,000 connections, one after the other, whose handshake is begun and left there
    closed-silent    2,000 connections that shake hands and say nothing more
    closed-begun     the same, with a mechanism that is chosen
    closed-parts     2,000 connections with 63 KiB of a frame that does not end
    closed-wrong     four connections after another with a wrong password
    closed-proofs    the same by SCRAM, and a proof of as many bytes as a token may have
    closed-bearer    tokens of a key that nobody knows
    closed-asks      ApiVersions, each with a client id of its own
by a user who may do nothing:
    closed-ids       requests, each with a client id of its own
    closed-denied    questions about groups that are not the user's
    closed-throttled 100 connections that send on, whatever their quota says
    closed-tokens    delegation tokens, made and described
"""

import contextlib
import itertools
import json
import os
import socket
import ssl
import struct
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from harness.bad_input import floods
from harness.bad_input.frame import framed
from harness.login import LISTENER, MECHANISM, PASSWORD, PROTOCOL, USER, SecureListener
from harness.node import LOOPBACK, NodeProcess
from harness.ports import free_port
from penstock.client.cluster import Cluster
from penstock.client.quotas import Quotas
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request
from penstock.quotas.entities import entity_of
from reliability.attacks.attack_frames import (
    ANSWER_SECONDS,
    Address,
    Aim,
    Attack,
    Wait,
    exchange,
    exchanging,
    request,
)

KEY_OF_USER = "k" * 24
STRANGER, STRANGERS_PASSWORD = "mallory", "a password that is known"
CROWD, HELLOS = 2_000, 1_000
PART_BYTES = 63 << 10
WORKERS = 4
THROTTLED_CONNECTIONS = 100
QUOTA = {"producer_byte_rate": 1e9, "consumer_byte_rate": 1e9, "request_percentage": 1e6}
"""Of each client id of each user: as many windows as client ids, and nobody is delayed."""
THROTTLE = {"request_percentage": 0.1}
"""Of the stranger, where it is to be delayed."""
Begin = Callable[[Address], socket.socket]


@cache
def trusting(protocol: str = "") -> ssl.SSLContext:
    """Return what shakes hands with whoever is there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def _open(address: Address) -> socket.socket:
    return socket.create_connection(address, ANSWER_SECONDS)


def shaken(address: Address, protocol: str = "") -> socket.socket:
    """Connect and shake hands, for a protocol (ALPN) where one is named."""
    return trusting(protocol).wrap_socket(_open(address))


@cache
def _hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _begun(address: Address) -> socket.socket:
    connection = shaken(address)
    connection.sendall(floods.SASL_BEGUN)
    return connection


def _with_part(address: Address) -> socket.socket:
    connection = shaken(address)
    head = struct.pack(">ihhih", 512 << 10, ApiKey.SASL_AUTHENTICATE, 1, 1, -1)
    connection.sendall(head.ljust(PART_BYTES, b"\0"))
    return connection


def with_hello(address: Address) -> socket.socket:
    """Connect and begin a handshake, and no more."""
    connection = _open(address)
    connection.sendall(_hello())
    return connection


@contextlib.contextmanager
def crowd(address: Address, begin: Begin, count: int) -> Iterator[None]:
    """Hold so many connections; those that are there longest are made anew."""
    held: deque[socket.socket] = deque()

    def once(wait: Wait) -> None:
        with contextlib.suppress(OSError):
            held.append(begin(address))
        if len(held) > count:
            held.popleft().close()
        wait(floods.PAUSE_SECONDS)

    try:
        with floods.repeating(once):
            yield
    finally:
        for connection in held:
            connection.close()


@contextlib.contextmanager
def _drips(aim: Aim) -> Iterator[None]:
    held = [_open(aim.kafka) for _ in range(HELLOS)]
    places = itertools.count()

    def once(wait: Wait) -> None:
        place = next(places)
        for number, connection in enumerate(held):
            try:
                connection.sendall(_hello()[place % 400 : place % 400 + 1])
            except OSError:
                connection.close()
                with contextlib.suppress(OSError):
                    held[number] = _open(aim.kafka)
        wait(1.0)

    with floods.repeating(once):
        yield


def _crowded(begin: Begin, count: int = CROWD) -> Attack:
    return lambda aim: crowd(aim.kafka, begin, count)


@contextlib.contextmanager
def again(address: Address, once: Callable[[Address], None]) -> Iterator[None]:
    """Do it again and again, on WORKERS connections at a time."""

    def work(wait: Wait) -> None:
        with contextlib.suppress(OSError):
            once(address)
        wait(floods.PAUSE_SECONDS)

    with contextlib.ExitStack() as stack:
        for _ in range(WORKERS):
            stack.enter_context(floods.repeating(work))
        yield


def _login(mechanism: str, token: bytes) -> list[bytes]:
    chosen = request(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": mechanism})
    return [chosen, request(ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": token})]


def _failing(mechanism: str, *tokens: bytes) -> Attack:
    frames = _login(mechanism, tokens[0])
    frames += [request(ApiKey.SASL_AUTHENTICATE, 0, {"auth_bytes": one}) for one in tokens[1:]]

    def once(address: Address) -> None:
        with shaken(address) as connection:
            exchange(connection, frames)

    return lambda aim: again(aim.kafka, once)


def _unknown_key() -> bytes:
    head = {"alg": "RS256", "kid": os.urandom(16).hex(), "typ": "JWT"}
    parts = [json.dumps(head).encode(), json.dumps({"sub": "x" * 9_000}).encode(), bytes(256)]
    token = b".".join(urlsafe_b64encode(one).rstrip(b"=") for one in parts)
    return b"n,,\x01auth=Bearer " + token + b"\x01\x01"


def _named(key: ApiKey, version: int, fields: dict[str, Any], client_id: str) -> bytes:
    head = request_header(key, version, correlation_id=7, client_id=client_id)
    return framed(head + encode_request(key, version, fields))


@contextlib.contextmanager
def _sending(
    address: Address, prelude: list[bytes], make: Callable[[], list[bytes]], connections: int = 1
) -> Iterator[None]:
    """Begin with some frames, then exchange what `make` gives again and again."""

    def connect() -> socket.socket:
        connection = shaken(address)
        try:
            exchange(connection, prelude)
        except OSError:
            connection.close()
            raise
        return connection

    with exchanging(connect, lambda: make, connections):
        yield


_AS_STRANGER = _login("PLAIN", f"\0{STRANGER}\0{STRANGERS_PASSWORD}".encode())


def _asks(aim: Aim) -> contextlib.AbstractContextManager[object]:
    numbers = itertools.count()
    return _sending(
        aim.kafka,
        [],
        lambda: [
            _named(ApiKey.API_VERSIONS, 0, {}, f"{next(numbers)}-{'x' * 200}") for _ in range(50)
        ],
    )


def _ids(aim: Aim) -> contextlib.AbstractContextManager[object]:
    numbers = itertools.count()
    return _sending(
        aim.kafka,
        _AS_STRANGER,
        lambda: [
            _named(ApiKey.API_VERSIONS, 0, {}, f"{next(numbers)}-{'x' * 200}") for _ in range(50)
        ],
    )


def _denied(aim: Aim) -> contextlib.AbstractContextManager[object]:
    numbers = itertools.count()

    def make() -> list[bytes]:
        groups = [f"{next(numbers)}-{'x' * 200}" for _ in range(50)]
        return [request(ApiKey.DESCRIBE_GROUPS, 0, {"groups": groups})]

    return _sending(aim.kafka, _AS_STRANGER, make, connections=2)


@contextlib.contextmanager
def _throttled(aim: Aim) -> Iterator[None]:
    """Send large requests and read nothing: what comes behind a throttle is not to be kept."""
    frame = request(
        ApiKey.METADATA,
        4,
        {
            "topics": [{"name": f"unknown-{number}"} for number in range(4_000)],
            "allow_auto_topic_creation": False,
        },
    )
    with contextlib.ExitStack() as stack:
        for _ in range(THROTTLED_CONNECTIONS):
            connection = stack.enter_context(shaken(aim.kafka))
            exchange(connection, _AS_STRANGER)
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.sendall(frame * 20)
        yield


def _tokens(aim: Aim) -> contextlib.AbstractContextManager[object]:
    made = {"renewers": [], "max_lifetime": -1}
    frames = [request(ApiKey.CREATE_DELEGATION_TOKEN, 1, made)] * 20
    frames.append(request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, {"owners": None}))
    return _sending(aim.kafka, _AS_STRANGER, lambda: frames, connections=2)


CLOSED: dict[str, Attack] = {
    "closed-drips": _drips,
    "closed-hellos": _crowded(with_hello, HELLOS),
    "closed-silent": _crowded(shaken),
    "closed-begun": _crowded(_begun),
    "closed-parts": _crowded(_with_part),
    "closed-wrong": _failing("PLAIN", b"\0writer\0guessed"),
    "closed-proofs": _failing("SCRAM-SHA-512", b"n,,n=writer,r=nonce", bytes(500_000)),
    "closed-bearer": _failing("OAUTHBEARER", _unknown_key(), b"\x01"),
    "closed-asks": _asks,
    "closed-ids": _ids,
    "closed-denied": _denied,
    "closed-throttled": _throttled,
    "closed-tokens": _tokens,
}


class ClosedNode(NodeProcess):
    """A node whose listeners beside the first want TLS and proofs: rules, quotas and the audit."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._kind = kind
        listener = SecureListener(directory, [LOOPBACK])
        self.login, self.login_port = listener.login, free_port()
        self.certificate = str(listener.settings()["ssl_certificate_file"])
        private = {
            "users": f"{USER}:{PASSWORD}\n{STRANGER}:{STRANGERS_PASSWORD}\n",
            "secret": f"{'s' * 64}\n",
            "keys-of-users": f"{USER}:{KEY_OF_USER}\n",
        }
        for name, text in private.items():
            (directory / name).touch(mode=0o600)
            (directory / name).write_text(text, encoding="utf-8")
        (directory / "keys").write_bytes(_provider_keys())
        settings: dict[str, dict[str, object]] = {
            "node": {"listeners": [f"{LISTENER}://{LOOPBACK}:{self.login_port}"]},
            "remoting": {"port": free_port()},
            "grpc": {"port": free_port()},
            "security": {
                **listener.settings(),
                "listener_security_protocol_map": [
                    f"{LISTENER}:{PROTOCOL}",
                    f"remoting:{PROTOCOL}",
                    f"grpc:{PROTOCOL}",
                ],
                "remoting_access_keys_file": str(directory / "keys-of-users"),
                "sasl_enabled_mechanisms": [MECHANISM, "PLAIN", "OAUTHBEARER"],
                "sasl_plain_users_file": str(directory / "users"),
                "delegation_token_secret_file": str(directory / "secret"),
                "sasl_oauthbearer_jwks_file": str(directory / "keys"),
                "sasl_oauthbearer_expected_issuer": "https://provider.example",
                "sasl_oauthbearer_expected_audience": ["penstock"],
            },
            "access": {
                "authorizer": "acl",
                "super_users": [f"User:{USER}", "User:ANONYMOUS"],
            },
            "broker": {"audit": True, "client_metrics": True},
        }
        super().__init__(directory, settings=settings)

    def prepare(self) -> None:
        """Set the quotas that the attack is to meet."""
        with Cluster(ClientSettings(bootstrap=self.bootstrap)) as cluster:
            quotas = Quotas(cluster)
            quotas.alter(entity_of([("user", None), ("client-id", None)]), QUOTA)
            if self._kind == "closed-throttled":
                quotas.alter(entity_of([("user", STRANGER), ("client-id", None)]), THROTTLE)


def _provider_keys() -> bytes:
    """Return a set of one key, which signs nothing here."""
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    key = json.loads(ECAlgorithm.to_jwk(public)) | {"kid": "known"}
    key.pop("key_ops", None)
    return json.dumps({"keys": [key]}).encode()
