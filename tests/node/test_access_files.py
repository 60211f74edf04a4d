"""Files of users, keys and certificates: who may read them, and what a change does."""

import logging
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.node.access.certificates import tls_context, tls_files
from penstock.node.access.files import Watched, read_users
from penstock.node.access.users import access_keys
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol
from penstock.node.settings.settings import load_settings
from tests.access.certificates import Authority, openssl

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def written(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_users_are_read_line_by_line(tmp_path: Path) -> None:
    path = written(tmp_path / "users", "# all of them\n\nalice:pa\nbob:p:b:\n")
    assert read_users("setting", path) == {"alice": "pa", "bob": "p:b:"}


@pytest.mark.parametrize("text", ["alice", "alice:", ":pa", "a:b\na:c", "\xff:x"])
def test_lines_that_are_no_users_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"setting .*users"):
        read_users("setting", str(path))


@pytest.mark.parametrize("line", ["a-password-alone", ":its-password", "a-password-alone:"])
def test_a_line_that_is_refused_is_not_quoted(tmp_path: Path, line: str) -> None:
    """It may be a password, and what is wrong with a file stands in the log."""
    path = written(tmp_path / "users", f"alice:pa\n{line}\n")
    with pytest.raises(ConfigError, match="line 2 is no user:password") as refused:
        read_users("setting", path)
    assert "password" not in str(refused.value).replace("user:password", "")


def test_access_keys_have_one_secret_or_two(tmp_path: Path) -> None:
    text = "bob:first secret of his\n# later\nalice:hers: with a colon\nbob:second secret of his\n"
    assert access_keys(written(tmp_path / "keys", text)) == {
        "bob": (b"first secret of his", b"second secret of his"),
        "alice": (b"hers: with a colon",),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alice:fifteen letter", "less than 16 characters"),
        (f"alice:{'a' * 16}\n" * 3, "line 3 has a user that was there 2 times"),
        (f":{'a' * 16}", "line 1 is no user:password"),
    ],
)
def test_access_keys_that_are_weak_or_many_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        access_keys(written(tmp_path / "keys", text))


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o666])
def test_secrets_that_everybody_can_read_are_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "users", "alice:pa\n", mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_users("setting", path)


def test_a_broken_change_is_said_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    written(path, "alice:pa\n")
    watched = Watched("users", (str(path),), lambda: read_users("setting", str(path)))
    watched.look()
    replaced(path, "alice")
    with caplog.at_level(logging.INFO):
        watched.look()
        watched.look()
    assert watched.value == {"alice": "pa"}
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    replaced(path, "alice:new\n")
    watched.look()
    assert watched.value == {"alice": "new"}
    path.unlink()
    watched.look()
    assert watched.value == {"alice": "new"}


def replaced(path: Path, text: str) -> None:
    """Put a new file in its place, as tools that renew certificates do."""
    other = path.with_suffix(".new")
    written(other, text)
    other.rename(path)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def config(authority: Authority, name: str = "one", **more: Any) -> SecurityConfig:
    certificate, key = authority.issue(name, f"/CN={name}")
    return SecurityConfig(ssl_certificate_file=certificate, ssl_key_file=key, **more)


@needs_openssl
def test_a_context_asks_as_the_settings_say(authority: Authority) -> None:
    plain = tls_context(config(authority))
    assert plain.verify_mode is ssl.CERT_NONE
    assert plain.minimum_version is ssl.TLSVersion.TLSv1_2
    assert plain.options & ssl.OP_NO_RENEGOTIATION
    asks = {"requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    for how, mode in asks.items():
        settings = config(authority, ssl_client_auth=how, ssl_authority_file=authority.file)
        assert tls_context(settings).verify_mode is mode
        assert len(tls_files(settings)) == 3


def exposed(settings: SecurityConfig) -> None:
    Path(settings.ssl_key_file).chmod(0o644)


def encrypted(settings: SecurityConfig) -> None:
    key = Path(settings.ssl_key_file)
    openssl(key.parent, "pkey", "-in", key.name, "-aes256", "-passout", "pass:x", "-out", "x.key")
    shutil.copy(key.parent / "x.key", key)


def of_another(settings: SecurityConfig) -> None:
    key = Path(settings.ssl_key_file)
    openssl(key.parent, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-out", "y.key")  # fmt: skip
    shutil.copy(key.parent / "y.key", key)


def missing(settings: SecurityConfig) -> None:
    Path(settings.ssl_key_file).unlink()


def garbled(settings: SecurityConfig) -> None:
    Path(settings.ssl_certificate_file).write_text("no certificate")


@needs_openssl
@pytest.mark.parametrize("spoil", [exposed, encrypted, of_another, missing, garbled])
def test_files_that_can_not_be_used_are_refused(
    authority: Authority, spoil: Callable[[SecurityConfig], None]
) -> None:
    settings = config(authority, "spoilt")
    spoil(settings)
    with pytest.raises(ConfigError, match=r"spoilt\.(key|pem)"):
        tls_context(settings)


LISTENERS = ("node.listeners=OUT://127.0.0.1:9095",)


def settings(*overrides: str) -> Any:
    return load_settings(None, environment={}, overrides=overrides)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["listener_security_protocol_map=kafka:TLS"], "no NAME:PROTOCOL"),
        (["listener_security_protocol_map=kafka:SSL,kafka:SSL"], "twice"),
        (["listener_security_protocol_map=IN:SSL"], "IN, which is not there"),
        (["listeners=IN.ssl_client_auth=none"], "IN, which is not there"),
        (["listener_security_protocol_map=kafka:SSL"], "give security.ssl_certificate_file"),
        (
            [
                "listener_security_protocol_map=kafka:SSL", "ssl_certificate_file=c",
                "ssl_key_file=k", "ssl_client_auth=required",
            ],
            "give security.ssl_authority_file",
        ),
        (["ssl_client_auth=always"], "ssl_client_auth"),
        (["sasl_enabled_mechanisms=GSSAPI"], "GSSAPI"),
        (["ssl_principal_mapping_rules=RULE:"], "no rule"),
        (
            [
                "listener_security_protocol_map=kafka:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms=PLAIN",
            ],
            "give security.sasl_plain_users_file",
        ),
        (
            [
                "listener_security_protocol_map=kafka:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms=PLAIN", "sasl_plain_users_file=u",
            ],
            "security.sasl_plain_without_tls",
        ),
        (
            [
                "listener_security_protocol_map=kafka:SASL_PLAINTEXT",
                "listeners=kafka.sasl_enabled_mechanisms=",
            ],
            "give security.sasl_enabled_mechanisms",
        ),
        (
            ["listener_security_protocol_map=kafka:SSL", "listeners=kafka.no_setting=1"],
            "no NAME.setting=value",
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(*LISTENERS, *(f"security.{one}" for one in overrides))
    assert said in str(raised.value)


def test_a_listener_has_settings_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(
        """
        [node]
        listeners = ["OUT://127.0.0.1:9095"]
        [security]
        listener_security_protocol_map = ["OUT:SASL_SSL", "kafka:PLAINTEXT"]
        listeners = ["OUT.ssl_key_file=out.key", "OUT.sasl_enabled_mechanisms=SCRAM-SHA-256 PLAIN",
                     "OUT.connections_max_reauth_ms=7", "OUT.sasl_plain_without_tls=true"]
        ssl_certificate_file = "one.pem"
        ssl_key_file = "one.key"
        sasl_plain_users_file = "users"
        """
    )
    security = load_settings(file, environment={}).security
    assert security.protocols()["OUT"] is SecurityProtocol.SASL_SSL
    out, first = security.of_listener("OUT"), security.of_listener("kafka")
    assert out.ssl_key_file == os.fspath(tmp_path / "out.key")
    assert first.ssl_key_file == os.fspath(tmp_path / "one.key")
    assert out.ssl_certificate_file == first.ssl_certificate_file
    assert out.sasl_enabled_mechanisms == ("SCRAM-SHA-256", "PLAIN")
    assert (out.connections_max_reauth_ms, first.connections_max_reauth_ms) == (7, 0)
    assert out.sasl_plain_without_tls
