"""Delegation tokens for operators: make, renew, end, list.

Tokens are named by their ids. Brokers ask for a token's HMAC, which is looked up by describing it:
who may change a token may see it.

Source: KIP-48, KIP-373.
"""

import builtins
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from penstock.access.delegation import password_of
from penstock.client.cluster import Cluster, check_code
from penstock.client.errors import TokenNotFound
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

USER = "User"
_WHY = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "delegation tokens are off: give brokers security.delegation_token_secret_file"
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "only who has proved a password or a certificate may ask for tokens: see --client-config"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "not permitted: it needs CreateTokens on that user"
    ),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "it is its owner's, requester's and renewers'",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "it is over: make another",
    ErrorCode.POLICY_VIOLATION: "there are as many tokens as there may be, of this user or at all",
    ErrorCode.INVALID_REQUEST: "too many renewers, or a name that is none",
    ErrorCode.UNSUPPORTED_VERSION: "the metadata level is too low: penstock cluster upgrade",
}
_EPOCH = datetime.fromtimestamp(0).astimezone()
_MILLISECOND = timedelta(milliseconds=1)


class DelegationToken(NamedTuple):
    """A token; times are ms of the wall clock. Who has the password has the token."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    hmac: bytes

    @property
    def password(self) -> str:
        """What a client gives as its password, with the id as user and `tokenauth=true`."""
        return password_of(self.hmac)

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id})"


class DelegationTokens:
    """The delegation tokens of a cluster, through a `Cluster` that the caller closes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(
        self, owner: str | None, renewers: builtins.list[str], lifetime_ms: int
    ) -> DelegationToken:
        """Make a token, of the asking user if no other owner is named. Raises BrokerError.

        A request without an answer is sent again, and leaves a token that nobody knows.
        """
        answer = self._ask(
            ApiKey.CREATE_DELEGATION_TOKEN,
            {
                "owner_principal_type": None if owner is None else USER,
                "owner_principal_name": owner,
                "renewers": [{"principal_type": USER, "principal_name": one} for one in renewers],
                "max_lifetime_ms": lifetime_ms,
            },
            "a token",
        )
        return DelegationToken(
            token_id=answer.token_id,
            owner=answer.principal_name,
            requester=answer.token_requester_principal_name,
            renewers=tuple(renewers),
            issued_ms=_ms(answer.issue_timestamp),
            expires_ms=_ms(answer.expiry_timestamp),
            ends_ms=_ms(answer.max_timestamp),
            hmac=answer.hmac,
        )

    def list(self, owners: builtins.list[str] | None = None) -> builtins.list[DelegationToken]:
        """Return the tokens that one may see, of some owners or of all. Raises BrokerError."""
        asked = [{"principal_type": USER, "principal_name": one} for one in owners or ()]
        answer = self._ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": asked or None}, "tokens")
        return [
            DelegationToken(
                token_id=one.token_id,
                owner=one.principal_name,
                requester=one.token_requester_principal_name,
                renewers=tuple(each.principal_name for each in one.renewers),
                issued_ms=one.issue_timestamp,
                expires_ms=one.expiry_timestamp,
                ends_ms=one.max_timestamp,
                hmac=one.hmac,
            )
            for one in answer.tokens
        ]

    def renew(self, token_id: str, period_ms: int) -> int:
        """Let a token be good for a period from now; return its expiry. Raises BrokerError."""
        fields = {"hmac": self._hmac(token_id), "renew_period_ms": period_ms}
        answer = self._ask(ApiKey.RENEW_DELEGATION_TOKEN, fields, f"token {token_id}")
        return _ms(answer.expiry_timestamp)

    def expire(self, token_id: str, period_ms: int) -> int:
        """End a token after a period, below 0 at once; return its expiry. Raises BrokerError."""
        fields = {"hmac": self._hmac(token_id), "expiry_time_period_ms": period_ms}
        answer = self._ask(ApiKey.EXPIRE_DELEGATION_TOKEN, fields, f"token {token_id}")
        return _ms(answer.expiry_timestamp)

    def _hmac(self, token_id: str) -> bytes:
        for one in self.list():
            if one.token_id == token_id and one.hmac:
                return one.hmac
        raise TokenNotFound(token_id)

    def _ask(self, api_key: ApiKey, fields: dict[str, Any], what: str) -> Any:
        def attempt() -> Any:
            answer = self._cluster.controller_connection().call(api_key, fields)
            check_code(answer.error_code, what, _WHY.get(ErrorCode(int(answer.error_code))))
            return answer

        return self._cluster.retry(what, attempt)


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND
