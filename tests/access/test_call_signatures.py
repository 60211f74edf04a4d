"""Signatures of gRPC calls: RocketMQ's own example, what clients write, and what is not one."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from penstock.access.call_signatures import ALGORITHM, HEADER_BYTES_MAX, is_now, proof_of
from penstock.access.signatures import Proof
from tests.remoting.signing import SECRETS

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp()) * 1_000
DATE = b"20260301T120000Z"
KEYS = {"alice": (SECRETS["alice"].encode(),), "bob": (b"bob's secret, the new", b"the old one")}


def signature(secret: bytes, date: bytes = DATE) -> str:
    return hmac.new(secret, date, hashlib.sha1).hexdigest()


def header(user: str, secret: bytes, date: bytes = DATE) -> bytes:
    told = f"Credential={user}, SignedHeaders=x-mq-date-time, Signature={signature(secret, date)}"
    return f"{ALGORITHM} {told}".encode()


ALICE = KEYS["alice"][0]


def good(told: bytes, date: bytes = DATE) -> Proof | None:
    return proof_of(told, date, KEYS, NOW_MS)


def test_the_user_is_known_by_any_of_his_secrets() -> None:
    assert good(header("alice", ALICE)) == Proof("alice", ALICE)
    for secret in KEYS["bob"]:
        assert good(header("bob", secret)) == Proof("bob", secret)


@pytest.mark.parametrize(
    "told",
    [
        f"{ALGORITHM} Credential=alice/region/Rocketmq, SignedHeaders=x-mq-date-time, Signature=",
        f"{ALGORITHM} Credential=alice//, SignedHeaders=x-mq-date-time,  Signature=",
        f"{ALGORITHM} SignedHeaders=x-mq-date-time,Credential=alice,Signature=",
    ],
)
def test_region_and_service_of_clients_are_passed_over(told: str) -> None:
    for digits in (signature(ALICE), signature(ALICE).upper()):
        assert good(f"{told}{digits}".encode()) == Proof("alice", ALICE)


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"MQv2-HMAC-SHA1",
        b"\xff\xfe",
        header("bob", ALICE),
        header("nobody", ALICE),
        header("", ALICE),
        header("nobody", b"no secret of anybody"),
        header("alice", b""),
        header("alice", ALICE, b"20260301T120001Z"),
        header("alice", ALICE).replace(b"SHA1", b"MD5"),
        header("alice", ALICE).replace(ALGORITHM.encode(), b"Bearer"),
        header("alice", ALICE)[:-1],
        header("alice", ALICE)[:-2],
        header("alice", ALICE) + b"00",
        header("alice", ALICE).replace(b"Signature=", b"signature="),
        f"{ALGORITHM} Credential=alice, SignedHeaders=x-mq-date-time, Signature=".encode(),
        f"{ALGORITHM} Credential=alice, Signature={signature(ALICE)}xyz".encode(),
        header("alice", ALICE) + b"," + b" " * HEADER_BYTES_MAX,
    ],
)
def test_what_is_no_signature_of_this_date_is_nobody_s(told: bytes) -> None:
    assert good(told) is None


def test_a_name_without_secrets_is_as_good_as_none() -> None:
    assert proof_of(header("carol", b""), DATE, {"carol": ()}, NOW_MS) is None


def test_a_proof_holds_as_long_as_the_user_has_its_secret() -> None:
    proof = Proof("bob", b"the old one")
    assert proof.is_good(KEYS)
    assert not proof.is_good({"bob": KEYS["bob"][:1]})
    assert not proof.is_good({"alice": (b"the old one",)})


@pytest.mark.parametrize(
    ("hours", "seconds", "holds"),
    [
        (0, 0, True),
        (14, 0, True),  # on Kiribati
        (-12, 0, True),  # on Baker Island
        (15, 0, True),
        (-13, 0, True),
        (15, 1, False),
        (-13, -1, False),
        (24, 0, False),
        (-24, 0, False),
    ],
)
def test_a_date_is_good_while_it_is_that_time_somewhere(
    hours: int, seconds: int, holds: bool
) -> None:
    when = NOW + timedelta(hours=hours, seconds=seconds)
    for text in (when.strftime("%Y%m%dT%H%M%SZ"), when.strftime("%Y-%m-%dT%H:%M:%S.123+08:00")):
        date = text.encode()
        assert is_now(date, NOW_MS) is holds
        assert (good(header("alice", ALICE, date), date) is not None) is holds


@pytest.mark.parametrize(
    "date",
    [
        b"",
        b"now",
        b"1772366400",
        b"20260301",
        b"20260301T1200",
        b"20260301T1200000",
        b"20261301T120000Z",
        b"20260230T120000Z",
        b"20260301T250000Z",
        b"20260301T120060Z",
        b"00000301T120000Z",
        b" 20260301T120000Z",
        "\uff12\uff10260301T120000Z".encode(),
        DATE + b" " * HEADER_BYTES_MAX,
    ],
)
def test_what_is_no_date_is_never_good(date: bytes) -> None:
    assert good(header("alice", ALICE, date), date) is None


def test_rocketmq_s_own_example_is_good() -> None:
    """The header and the date of its DefaultAuthenticationContextBuilderTest."""
    date, told = b"20231227T194619Z", "D18A9CBCDDBA9041D6693268FEF15A989E64430B"
    now_ms = int(datetime(2023, 12, 27, 19, 46, 19, tzinfo=UTC).timestamp()) * 1_000
    line = f"{ALGORITHM} Credential=abc, SignedHeaders=x-mq-date-time, Signature={told}".encode()
    assert proof_of(line, date, {"abc": (b"abc",)}, now_ms) == Proof("abc", b"abc")
