"""SCRAM users for operators: list, add, delete.

The password stays here: brokers get it salted and hashed, over whatever the connection is.

Source: KIP-554.
"""

import secrets
from typing import Any, NamedTuple

from penstock.access.scram import HASHES, SALT_BYTES, salted_password
from penstock.client.cluster import Cluster, check_code
from penstock.protocol.api_keys import ApiKey

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's numbers of the mechanisms."""
_NAMES = {number: name for name, number in NUMBERS.items()}

assert set(NUMBERS) == set(HASHES)


class UserCredential(NamedTuple):
    """A mechanism by which a user can prove a password."""

    user: str
    mechanism: str
    iterations: int


class Users:
    """Administration of users through a `Cluster`, which the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list(self) -> list[UserCredential]:
        """Return the credentials of all users, by name."""
        answer = self._ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
        check_code(answer.error_code, "users", answer.error_message)
        return [
            UserCredential(result.user, _NAMES[int(info.mechanism)], int(info.iterations))
            for result in answer.results
            for info in result.credential_infos
        ]

    def add(self, user: str, password: str, mechanism: str, iterations: int) -> None:
        """Give a user a credential, in place of an earlier one. Raises BrokerError."""
        salt = secrets.token_bytes(SALT_BYTES)
        upsertion = {
            "name": user,
            "mechanism": NUMBERS[mechanism],
            "iterations": iterations,
            "salt": salt,
            "salted_password": salted_password(mechanism, password, salt, iterations),
        }
        self._alter(user, {"deletions": (), "upsertions": (upsertion,)})

    def delete(self, user: str, mechanisms: tuple[str, ...]) -> None:
        """Take credentials away from a user. Raises BrokerError."""
        deletions = [{"name": user, "mechanism": NUMBERS[one]} for one in mechanisms]
        self._alter(user, {"deletions": deletions, "upsertions": ()})

    def _alter(self, user: str, fields: dict[str, Any]) -> None:
        answer = self._ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, fields)
        for result in answer.results:
            check_code(result.error_code, f"user {user}", result.error_message)

    def _ask(self, api_key: ApiKey, fields: dict[str, Any]) -> Any:
        return self._cluster.retry(
            "users", lambda: self._cluster.controller_connection().call(api_key, fields)
        )
