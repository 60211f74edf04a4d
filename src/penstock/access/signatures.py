"""Signatures of requests by access keys: what RocketMQ's clients prove who they are with.

    signed bytes   values of all fields but Signature, in the order of the fields' names, then the
                   body; nothing between them
    signature      base64 of HMAC-SHA1 by the secret of the access key, in field Signature
    user           field AccessKey, which is signed as well

Neither the request's code nor its number is signed, and nothing makes a request unique: whoever
reads one on its way can send it again. TLS is what keeps others from reading it.

Source: RocketMQ 5.3.3 `AclClientRPCHook`, `AclUtils.combineRequestContent`, `AclSigner`. Field
SecurityToken is signed like any other and means nothing here.
"""

import base64
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.base.ports import Buffer

USER_FIELD: Final = "AccessKey"
SIGNATURE_FIELD: Final = "Signature"
SECRET_CHARS_MIN: Final = 16
"""Who reads a signed request on its way can try secrets at home, millions in a second."""
SECRETS_MAX: Final = 2
"""Of one user: a new one and an old one, while clients move from one to the other."""

AccessKeys = Mapping[str, tuple[bytes, ...]]
"""Users with their secrets, one to SECRETS_MAX each."""
NOBODYS: Final = b"no secret of anybody"


class Proof(NamedTuple):
    """What was found good."""

    user: str
    secret: bytes
    """By which a request or a call was signed."""

    def is_good(self, keys: AccessKeys) -> bool:
        """Whether the user still has that secret."""
        return self.secret in keys.get(self.user, ())


def signature_of(fields: Mapping[str, str], body: Buffer, secret: bytes) -> bytes:
    """Return the signature of a request, in base64."""
    mac = hmac.new(secret, digestmod="sha1")
    for name in sorted(fields):
        if name != SIGNATURE_FIELD:
            mac.update(fields[name].encode(errors="replace"))
    mac.update(body)
    return base64.b64encode(mac.digest())


def signer_of(fields: Mapping[str, str], body: Buffer, keys: AccessKeys) -> Proof | None:
    """Return the user whose secret has signed a request, and that; None if nobody's has.

    A wrong signature costs as much time for a user who is not there as for one with two secrets.
    """
    told = fields.get(SIGNATURE_FIELD, "").encode(errors="replace")
    user = fields.get(USER_FIELD, "")
    if not told or not user:
        return None
    secrets = keys.get(user, ())
    for secret in secrets:
        if hmac.compare_digest(signature_of(fields, body, secret), told):
            return Proof(user, secret)
    for _ in range(SECRETS_MAX - len(secrets)):
        hmac.compare_digest(signature_of(fields, body, NOBODYS), told)
    return None
