"""The record of the secret by which unknown users look like known ones.

All brokers answer a SCRAM login of an unknown user with a salt that follows from the secret and the
name, so the same at each of them and after a restart. The kind may be carried: a release that does
not know it answers by a secret of its own process, as before.

Source: RFC 5802 section 5.1 leaves open what a server says of an unknown user; ADR 0206.
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.controller.metadata.kinds import RecordKind
from penstock.controller.metadata.levels import CARRIED_LEVEL

LOGIN_SECRET_BYTES = 32
UNKNOWN_USERS = "unknown-users"
"""The only key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSecretChosen:
    """What unknown users are answered follows from `secret` from here on. It is chosen once."""

    KIND: ClassVar = RecordKind.LOGIN_SECRET_CHOSEN
    LEVEL: ClassVar = CARRIED_LEVEL
    key: str
    secret: bytes

    def __repr__(self) -> str:
        """Leave the secret out: logs show records."""
        return f"LoginSecretChosen(key={self.key!r})"
