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
