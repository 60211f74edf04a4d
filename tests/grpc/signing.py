"""A client of the gRPC port that signs its calls, and may talk over TLS."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from tests.grpc.served import Caller
from tests.remoting.signing import SECRETS

Metadata = tuple[tuple[str, str], ...]


def signed(user: str, secret: str, age: timedelta = timedelta()) -> Metadata:
    """Return the metadata of a signature, as RocketMQ's clients write them."""
    date = (datetime.now(UTC) - age).strftime("%Y%m%dT%H%M%SZ")
    made = hmac.new(secret.encode(), date.encode(), hashlib.sha1).hexdigest()
    told = f"Credential={user}//RocketMQ, SignedHeaders=x-mq-date-time, Signature={made}"
    return (("x-mq-date-time", date), ("authorization", f"MQv2-HMAC-SHA1 {told}"))


class SignedCaller(Caller):
    """One channel of a user; without one nothing is signed."""

    def __init__(
        self,
        address: str,
        user: str = "",
        secret: str = "",
        credentials: grpc.ChannelCredentials | None = None,
        **options: Any,
    ) -> None:
        super().__init__(address, credentials, **options)
        self.user, self.secret = user, secret or SECRETS.get(user, "")
        self.age = timedelta()

    def proof(self) -> Metadata:
        """Return what is told with each call of who asks."""
        return signed(self.user, self.secret, self.age) if self.user else ()
