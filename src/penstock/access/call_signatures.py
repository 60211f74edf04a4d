"""Signatures of calls by access keys: what RocketMQ's gRPC clients prove who they are with.

    x-mq-date-time   when the call was made, by the clock and the zone of the client
    authorization    MQv2-HMAC-SHA1 Credential=USER/REGION/SERVICE, SignedHeaders=x-mq-date-time,
                     Signature=HEX

The signature is HMAC-SHA1 of the date by the secret of the access key, and the access key is the
user's name. Nothing else of a call is signed: who has seen one can make others, whatever they are,
for as long as its date is good. TLS is what keeps others from seeing one.

The date is local time, by some clients with a Z behind it that is not meant: a date is good if it
is now somewhere on Earth, and an hour more either way for clocks that are wrong.

Source: RocketMQ 5.3.3 `DefaultAuthenticationContextBuilder`, and `Signature` of its clients (Java
and Go write local time with a Z, Rust RFC 3339). Departures: RocketMQ takes any text for a date, at
any time, and any word in the place of the algorithm. `x-mq-session-token` means nothing here.
"""

import hmac
import re
from datetime import datetime
from typing import Final

from penstock.access.signatures import NOBODYS, SECRETS_MAX, AccessKeys, Proof

AUTHORIZATION: Final = b"authorization"
DATE_TIME: Final = b"x-mq-date-time"
ALGORITHM: Final = "MQv2-HMAC-SHA1"
_DATE: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T(\d\d):?(\d\d):?(\d\d)(?!\d)", re.ASCII)
_HOUR_MS: Final = 3_600_000
WEST_MS: Final = 12 * _HOUR_MS
"""By so much local time may be behind UTC."""
EAST_MS: Final = 14 * _HOUR_MS
"""By so much it may be before it."""
SKEW_MS: Final = _HOUR_MS
"""By so much a client's clock may be wrong."""
HEADER_BYTES_MAX: Final = 1_024
"""Of each of the two."""


def proof_of(authorization: bytes, date_time: bytes, keys: AccessKeys, now_ms: int) -> Proof | None:
    """Return who has signed a call; None if nobody has, or not now.

    A wrong signature costs as much time for a user who is not there as for one with two secrets.
    """
    user, told = claimed(authorization)
    if not user or not told or len(date_time) > HEADER_BYTES_MAX:
        return None
    found: Proof | None = None
    secrets = keys.get(user, ())
    for secret in (*secrets, *(NOBODYS,) * (SECRETS_MAX - len(secrets))):
        is_same = hmac.compare_digest(hmac.digest(secret, date_time, "sha1"), told)
        if is_same and secret is not NOBODYS:
            found = Proof(user, secret)
    return found if is_now(date_time, now_ms) else None


def claimed(authorization: bytes) -> tuple[str, bytes]:
    """Return the user that a header names, and the signature; empty if it is no such header."""
    if len(authorization) > HEADER_BYTES_MAX:
        return "", b""
    try:
        algorithm, _, rest = authorization.decode().partition(" ")
        named = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        told = bytes.fromhex(named.get("Signature", ""))
    except ValueError:
        return "", b""
    if algorithm != ALGORITHM:
        return "", b""
    return named.get("Credential", "").partition("/")[0], told


def is_now(date_time: bytes, now_ms: int) -> bool:
    """Whether it is that time somewhere on Earth, or was or will be within the hour."""
    match = _DATE.match(date_time.decode(errors="replace"))
    try:
        when = datetime.fromisoformat("{}{}{}T{}{}{}Z".format(*match.groups())) if match else None
    except ValueError:
        return False
    if when is None:
        return False
    ahead_ms = int(when.timestamp()) * 1_000 - now_ms
    return -WEST_MS - SKEW_MS <= ahead_ms <= EAST_MS + SKEW_MS
