"""Settings of OAUTHBEARER that are refused, and keys of a provider that can not be had."""

import ssl
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.node.access.provider_keys import KEYS_BYTES_MAX, FetchedKeys, parsed_url, read_keys
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol
from tests.access.provider import Provider

GOOD = {
    "ssl_certificate_file": "c",
    "ssl_key_file": "k",
    "sasl_enabled_mechanisms": ("OAUTHBEARER",),
    "sasl_oauthbearer_jwks_file": "keys",
    "sasl_oauthbearer_expected_issuer": "issuer",
    "sasl_oauthbearer_expected_audience": ("penstock",),
}


def check(protocol: SecurityProtocol = SecurityProtocol.SASL_SSL, **changed: object) -> None:
    config = SecurityConfig(**(GOOD | changed))  # type: ignore[arg-type]
    config.check_listener("kafka", protocol)


def test_a_listener_with_all_of_it_is_taken() -> None:
    check()
    check(sasl_oauthbearer_jwks_file="", sasl_oauthbearer_jwks_url="https://a/b")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl_oauthbearer_jwks_file": ""}, "jwks_file or security.sasl_oauthbearer_jwks_url"),
        ({"sasl_oauthbearer_jwks_url": "https://a/b"}, "one of them"),
        ({"sasl_oauthbearer_expected_issuer": ""}, "give security.sasl_oauthbearer_expected_iss"),
        ({"sasl_oauthbearer_expected_audience": ()}, "sasl_oauthbearer_expected_audience: without"),
        ({"sasl_oauthbearer_algorithms": ()}, "give security.sasl_oauthbearer_algorithms"),
        ({"sasl_oauthbearer_algorithms": ("HS256",)}, "'HS256' is not one of RS256, RS384"),
        ({"sasl_oauthbearer_algorithms": ("none",)}, "'none' is not one of"),
        ({"protocol": SecurityProtocol.SASL_PLAINTEXT}, "tokens could be taken on the way"),
    ],
)
def test_what_is_missing_or_dangerous_is_said(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check(**changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "", "http://a/b", "file:///etc/keys", "https://", "https:///b", "a/b", "https://u:p@a/b",
        "https://a:port/", "https://a:0/", "https://a:99999/", "https://[a/", "https://\xe4/",
    ],
)  # fmt: skip
def test_keys_come_over_https_only(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of the form https://host/path"):
        parsed_url(url)
    with pytest.raises(ConfigError, match="is no address of the form https://host/path"):
        FetchedKeys(url, "")


def test_an_authority_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("absent", "empty"):
        with pytest.raises(ConfigError, match="jwks_authority_file"):
            FetchedKeys("https://a/b", str(tmp_path / name))


def test_a_provider_is_known_by_its_certificate() -> None:
    context = FetchedKeys("https://a/b", "")._context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(ConfigError, match="can not be read: No such file"):
        read_keys(str(path))
    path.write_bytes(b"{}")
    with pytest.raises(ConfigError, match="can not be used: not a set of keys"):
        read_keys(str(path))
    path.write_bytes(b" " * (KEYS_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="have more than 1048576 bytes"):
        read_keys(str(path))
    path.write_bytes(Provider().document("ec"))
    assert set(read_keys(str(path))) == {"ec"}
