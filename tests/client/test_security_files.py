"""Properties files that say how a client comes in: what is refused, and what that tells."""

from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.client.security import read_security


def said_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_security(path)
    return str(refused.value)


@pytest.mark.parametrize("line", ["sasl.password a-secret", "sasl.pass = a-secret", "a-secret"])
def test_a_line_that_is_refused_is_named_and_not_quoted(tmp_path: Path, line: str) -> None:
    said = said_of(tmp_path, f"security.protocol = SASL_SSL\n{line}\n")
    assert "line 2" in said
    assert "a-secret" not in said


@pytest.mark.parametrize("more", ["", "sasl.username = u\n", "sasl.mechanism = NONE\n"])
def test_settings_that_do_not_fit_are_told_without_the_password(tmp_path: Path, more: str) -> None:
    said = said_of(tmp_path, f"security.protocol = SASL_SSL\nsasl.password = a-secret\n{more}")
    assert "sasl." in said
    assert "a-secret" not in said


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol = SASL_SSL\nsasl.mechanism = PLAIN\n"
        "sasl.username = u\nsasl.password = a-secret\n"
    )
    read = read_security(path)
    assert read.password == "a-secret"
    assert "a-secret" not in repr(read)


@pytest.mark.parametrize("secret", ["", "sasl.password = a-secret\nsasl.password.file = here\n"])
def test_a_password_is_given_in_one_way(tmp_path: Path, secret: str) -> None:
    said = said_of(
        tmp_path,
        f"security.protocol = SASL_SSL\nsasl.mechanism = PLAIN\nsasl.username = u\n{secret}",
    )
    assert "sasl.password.file" in said
    assert "a-secret" not in said


PROVIDER = (
    "security.protocol = SASL_SSL\nsasl.mechanism = OAUTHBEARER\nsasl.oauthbearer.method = oidc\n"
    "sasl.oauthbearer.token.endpoint.url = https://h/token\nsasl.oauthbearer.client.id = i\n"
)


@pytest.mark.parametrize("count", [0, 2])
def test_a_provider_s_secret_is_given_in_one_way(tmp_path: Path, count: int) -> None:
    name = "sasl.oauthbearer.client.secret"
    both = f"{name} = a-secret\n{name}.file = here\n"
    said = said_of(tmp_path, PROVIDER + (both if count else ""))
    assert f"one of {name} and {name}.file" in said


def test_files_with_secrets_are_looked_for_where_the_settings_are(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"{PROVIDER}sasl.oauthbearer.client.secret.file = secret\n")
    (tmp_path / "secret").write_text("a-secret\n")
    read = read_security(path)
    assert read.client_secret_file == str(tmp_path / "secret")
    assert read._provider()._secret() == "a-secret"
