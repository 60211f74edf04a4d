"""Users that SASL checks proofs against: those of a file for PLAIN, and of the metadata log."""

import hmac
from collections.abc import Callable, Mapping

from penstock.access.bearer import CheckToken
from penstock.access.delegation import TokenLogin
from penstock.access.plain import digest_of
from penstock.access.sasl import SaslUsers
from penstock.access.scram import (
    HASHES,
    ITERATIONS_DEFAULT,
    NONCE_BYTES,
    SALT_BYTES,
    ScramKeys,
    keys_of,
    salted_password,
    unknown_keys,
)
from penstock.access.signatures import SECRET_CHARS_MIN, SECRETS_MAX
from penstock.base.errors import ConfigError
from penstock.base.ports import Randomness
from penstock.controller.commands.access.commands import AlterScram, ScramUpsert
from penstock.controller.metadata.config_records import ScramCredentialChanged, ScramMechanism
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.login_records import LOGIN_SECRET_BYTES, UNKNOWN_USERS
from penstock.node.access.files import read_users, user_lines

NUMBERS = {"SCRAM-SHA-256": ScramMechanism.SHA_256, "SCRAM-SHA-512": ScramMechanism.SHA_512}
SETTING_OF_PLAIN = "security.sasl_plain_users_file"
SETTING_OF_FIRST = "security.scram_first_users_file"
SETTING_OF_ACCESS_KEYS = "security.remoting_access_keys_file"

assert set(NUMBERS) == set(HASHES)


class UnknownUsers:
    """What unknown users are answered: the same by all processes that know the cluster's secret.

    Each kind of users has answers of its own. A name that is unknown as a user and as a token would
    get one salt as both otherwise, and a known one two: that would tell who is known.
    """

    def __init__(self, image: ClusterImage, randomness: Randomness, kind: bytes) -> None:
        """`kind` says whose names these are."""
        self._kind = kind
        self._chosen = image.configuration.login_secrets
        self._own = randomness.token_bytes(LOGIN_SECRET_BYTES)
        """Of this process, as long as the cluster has none."""

    def keys(self, mechanism: str, user: str, like: ScramKeys | None) -> ScramKeys:
        """Return keys that no password fits, with the shape of `like`."""
        chosen = self._chosen.get(UNKNOWN_USERS)
        secret = self._own if chosen is None else chosen.secret
        of_kind = hmac.digest(secret, self._kind, "sha256")
        return unknown_keys(mechanism, user, of_kind, like)


class ScramUsers:
    """The SCRAM users of the metadata log."""

    def __init__(self, image: ClusterImage, unknown: UnknownUsers) -> None:
        self._credentials = image.configuration.credentials
        self._unknown = unknown

    def find(self, mechanism: str, user: str) -> ScramKeys:
        """Return a user's keys, or some that no password fits."""
        number = NUMBERS[mechanism]
        found = self._credentials.get((user, number))
        unknown = self._unknown.keys(mechanism, user, self._like())
        return unknown if found is None else _keys(found)

    def _like(self) -> ScramKeys | None:
        """Return what the keys of unknown users are to look like."""
        first = next(iter(self._credentials.values()), None)
        return None if first is None else _keys(first)


def _keys(record: ScramCredentialChanged) -> ScramKeys:
    return ScramKeys(
        salt=record.salt,
        stored_key=record.stored_key,
        server_key=record.server_key,
        iterations=record.iterations,
    )


def sasl_users(
    mechanisms: tuple[str, ...],
    passwords: Callable[[], Mapping[str, bytes]],
    scram: ScramUsers,
    randomness: Randomness,
    *,
    bearer: CheckToken | None = None,
    tokens: Callable[[str, str], TokenLogin] | None = None,
) -> SaslUsers:
    """Return what the proofs of a listener's clients are checked against."""
    return SaslUsers(
        mechanisms=mechanisms,
        passwords=passwords,
        keys=scram.find,
        new_nonce=lambda: randomness.token_bytes(NONCE_BYTES).hex(),
        bearer=bearer,
        tokens=tokens,
    )


def plain_digests(path: str) -> dict[str, bytes]:
    """Return the users of PLAIN. Raises ConfigError."""
    users = read_users(SETTING_OF_PLAIN, path)
    return {user: digest_of(password) for user, password in users.items()}


def access_keys(path: str) -> dict[str, tuple[bytes, ...]]:
    """Return the secrets of remoting clients by user. Raises ConfigError."""
    found: dict[str, tuple[bytes, ...]] = {}
    for number, user, secret in user_lines(SETTING_OF_ACCESS_KEYS, path):
        say = f"{SETTING_OF_ACCESS_KEYS} {path}: line {number}"
        if len(secret) < SECRET_CHARS_MIN:
            raise ConfigError(
                f"{say} has a secret of less than {SECRET_CHARS_MIN} characters, which can be"
                " guessed from one request: openssl rand -hex 24 prints a good one"
            )
        secrets = (*found.get(user, ()), secret.encode())
        if len(secrets) > SECRETS_MAX:
            raise ConfigError(f"{say} has a user that was there {SECRETS_MAX} times before")
        found[user] = secrets
    return found


def first_users(path: str, randomness: Randomness) -> AlterScram:
    """Return the command that makes the users of a file. Raises ConfigError."""
    return AlterScram(
        upserts=tuple(
            _upsert(mechanism, user, password, randomness.token_bytes(SALT_BYTES))
            for user, password in read_users(SETTING_OF_FIRST, path).items()
            for mechanism in HASHES
        ),
        is_first=True,
    )


def _upsert(mechanism: str, user: str, password: str, salt: bytes) -> ScramUpsert:
    salted = salted_password(mechanism, password, salt, ITERATIONS_DEFAULT)
    keys = keys_of(mechanism, salted, salt, ITERATIONS_DEFAULT)
    return ScramUpsert(
        user=user,
        mechanism=NUMBERS[mechanism],
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )
