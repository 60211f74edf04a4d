"""Who is let in by a delegation token: its owner while it is good, else nobody, and alike."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from penstock.access.delegation import TokenSecret, TokenSecrets, secrets_of
from penstock.base.errors import ConfigError
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.token_records import DelegationTokenChanged
from penstock.node.access import token_logins
from penstock.node.access.token_logins import TokenLogins, read_token_secrets
from penstock.node.access.users import UnknownUsers
from penstock.runtime.io.randomness import SystemRandomness
from tests.controller.cluster import Cluster

SHA = "SCRAM-SHA-256"
SECRETS = [secrets_of("file", [letter * 32]) for letter in "ab"]


@dataclass
class Place:
    """Tokens, the secrets of a file, and the time."""

    image: ClusterImage
    secrets: TokenSecrets | None
    now_ms: int = 1_000

    def add(self, token_id: str = "", expires_ms: int = 2_000) -> str:
        token_id = token_id or f"{SECRETS[0].tag}-x"
        self.image.configuration.tokens[token_id] = DelegationTokenChanged(
            token_id=token_id, owner="User:a:b", requester="User:r", renewers=("User:n",),
            issued_ms=0, ends_ms=9_000, expires_ms=expires_ms,
        )  # fmt: skip
        return token_id


@pytest.fixture
def place() -> Place:
    return Place(Cluster().image, SECRETS[0])


@pytest.fixture
def logins(place: Place) -> TokenLogins:
    unknown = UnknownUsers(place.image, SystemRandomness(), b"token")
    return TokenLogins(place.image, lambda: place.secrets, lambda: place.now_ms, unknown)


def test_a_token_lets_its_owner_in_until_it_is_over(place: Place, logins: TokenLogins) -> None:
    token_id = place.add()
    found = logins.find(SHA, token_id)
    assert (found.owner, found.expires_ms) == ("a:b", 2_000)
    assert found.keys == SECRETS[0].secrets[0].keys_of(SHA, token_id)
    place.now_ms = 1_999
    assert logins.find(SHA, token_id).owner == "a:b"
    place.now_ms = 2_000
    over = logins.find(SHA, token_id)
    assert over.owner is None
    assert over.keys != found.keys
    renewed = replace(place.image.configuration.tokens[token_id], expires_ms=5_000)
    place.image.configuration.tokens[token_id] = renewed
    assert logins.find(SHA, token_id) == replace(found, expires_ms=5_000)


def test_what_there_is_not_looks_as_if_it_were(place: Place, logins: TokenLogins) -> None:
    place.add()
    there, missing = (logins.find(SHA, f"{SECRETS[0].tag}-{one}") for one in "xy")
    assert missing.owner is None
    assert missing == logins.find(SHA, f"{SECRETS[0].tag}-y"), "always the same"
    for field in ("salt", "stored_key", "server_key"):
        assert len(getattr(missing.keys, field)) == len(getattr(there.keys, field))
    assert missing.keys.iterations == there.keys.iterations


def test_another_secret_ends_tokens_and_the_old_one_beside_it_does_not(
    place: Place, logins: TokenLogins
) -> None:
    token_id = place.add()
    assert logins.find(SHA, token_id).owner is not None
    place.secrets = SECRETS[1]
    assert logins.find(SHA, token_id).owner is None
    place.secrets = TokenSecrets(SECRETS[1].secrets + SECRETS[0].secrets)
    assert logins.find(SHA, token_id).owner is not None
    place.secrets = None
    assert logins.find(SHA, token_id).owner is None


def test_another_secret_with_the_same_tag_ends_tokens_too(
    place: Place, logins: TokenLogins
) -> None:
    """Tags have 24 bits: it is rare, and nobody who knows the old secret may come in."""
    token_id = place.add()
    before = logins.find(SHA, token_id)
    other = TokenSecret(b"c" * 32)
    other.tag = SECRETS[0].tag
    place.secrets = TokenSecrets((other,))
    assert logins.find(SHA, token_id).keys == other.keys_of(SHA, token_id) != before.keys


def test_keys_are_derived_once_and_those_of_tokens_that_are_gone_are_dropped(
    place: Place, logins: TokenLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[str] = []
    keys_of = TokenSecret.keys_of

    def counted(self: TokenSecret, mechanism: str, token_id: str) -> object:
        derived.append(token_id)
        return keys_of(self, mechanism, token_id)

    monkeypatch.setattr(TokenSecret, "keys_of", counted)
    monkeypatch.setattr(token_logins, "KEPT_MAX", 2)
    first, second, third = (place.add(f"{SECRETS[0].tag}-{at}") for at in range(3))
    for one in (first, first, second, first):
        logins.find(SHA, one)
    assert derived == [first, second]
    del place.image.configuration.tokens[first]
    logins.find(SHA, third)
    logins.find(SHA, second)
    assert derived == [first, second, third]
    assert [at for _, at in logins._kept] == [second, third]


def test_a_file_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("s" * 40 + "\n")
    path.chmod(0o604)
    with pytest.raises(ConfigError, match=r"delegation_token_secret_file .*chmod 600") as raised:
        read_token_secrets(str(path))
    assert "ssss" not in str(raised.value)
    path.chmod(0o600)
    assert read_token_secrets(str(path)).tag == secrets_of("", ["s" * 40]).tag
