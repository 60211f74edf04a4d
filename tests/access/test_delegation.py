"""The secret behind delegation tokens, against another implementation, and what files may have."""

import base64
import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.access.delegation import (
    SECRET_BYTES_MAX,
    SECRETS_MAX,
    TokenSecret,
    password_of,
    secrets_of,
)
from penstock.access.scram import HASHES, ScramClient, ScramServer
from penstock.base.errors import ConfigError

FIRST, SECOND = "first " * 6, "second " * 6


def hkdf(label: bytes) -> bytes:
    salt = b"penstock delegation tokens"
    return HKDF(SHA512(), 64, salt, label).derive(FIRST.strip().encode())


def test_keys_are_derived_by_hkdf_and_an_hmac_is_of_the_id() -> None:
    secret = TokenSecret(FIRST.strip().encode())
    assert secret.tag == hkdf(b"tag").hex()[:6]
    expected = hmac.new(hkdf(b"key"), b"an id", hashlib.sha512).digest()
    assert secret.hmac_of("an id") == expected
    assert password_of(expected) == base64.b64encode(expected).decode()
    assert secret.hmac_of("an ie") != expected


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_client_with_the_hmac_proves_the_token(mechanism: str) -> None:
    secret = TokenSecret(FIRST.encode())
    server = ScramServer(
        mechanism,
        lambda _: pytest.fail("it is no user"),
        "server",
        lambda token_id: secret.keys_of(mechanism, token_id),
    )
    password = password_of(secret.hmac_of("id"))
    client = ScramClient(mechanism, "id", password, "client", is_token=True)
    signature = server.final(client.final(server.first(client.first())))
    assert server.is_token
    assert signature is not None
    assert client.is_servers(signature)


def test_keys_differ_by_mechanism_and_by_token() -> None:
    secret = TokenSecret(FIRST.encode())
    salts = {secret.keys_of(one, token).salt for one in HASHES for token in ("a", "b")}
    assert len(salts) == 4


def test_new_tokens_are_of_the_first_secret_and_all_count() -> None:
    both, old = secrets_of("file", [SECOND, FIRST]), secrets_of("file", [FIRST])
    assert both.tag == secrets_of("file", [SECOND]).tag != old.tag
    token_id = f"{old.tag}-x"
    assert both.hmac_of(token_id) == old.hmac_of(token_id)
    assert both.has(token_id, old.hmac_of(token_id))
    assert not both.has(token_id, both.hmac_of(f"{both.tag}-x"))


def test_a_token_of_a_secret_that_is_gone_has_no_hmac() -> None:
    secrets = secrets_of("file", [FIRST])
    assert secrets.of("ffffff-x") is None
    assert secrets.hmac_of("ffffff-x") == b""
    assert not secrets.has("ffffff-x", b"")
    assert not secrets.has("", b"")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has 0 secrets"),
        (["# " + "c" * 40, " "], "has 0 secrets"),
        (["s" * 31], "31 bytes at place 1"),
        ([FIRST, "s" * (SECRET_BYTES_MAX + 1)], "1025 bytes at place 2"),
        ([FIRST, FIRST], "twice"),
        ([f"{at} {FIRST}" for at in range(SECRETS_MAX + 1)], "has 9 secrets"),
    ],
)
def test_a_file_that_is_no_good_is_said_without_its_secrets(lines: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        secrets_of("setting file", lines)
    assert "ssss" not in str(raised.value)
    assert FIRST.strip() not in str(raised.value)


def test_secrets_do_not_show_themselves() -> None:
    secrets = secrets_of("file", [FIRST])
    assert "first" not in repr(secrets) + repr(secrets.secrets) + str(secrets)
