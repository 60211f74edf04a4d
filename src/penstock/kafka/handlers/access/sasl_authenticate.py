"""SaslAuthenticate (key 36), versions 0 to 2: a token of the client, answered by one of the server.

A failure says the same whatever was wrong with what a mechanism asks for. The answer to the last
token says for how long the client is known (version 1): before that time is over it has to prove
again who it is.

Source: Kafka `SaslServerAuthenticator.handleSaslToken`, KIP-152, KIP-368. Where a client has
nothing to prove the answer is ILLEGAL_SASL_STATE, as in `KafkaApis.handleSaslAuthenticateRequest`.
"""

from penstock.access.sasl import OAUTHBEARER, SaslState
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.kafka.sasl.session import SaslSession
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.SASL_AUTHENTICATE
VERSIONS = range(3)
SESSION_VERSION = 1
FAILED = "Authentication failed: user, password or mechanism are not valid."
FAILED_BEARER = "Authentication failed: the token is not valid, or its time is over."


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Take the token."""
    del context
    session = request.connection.guard
    expected = {SaslState.CHOSEN, SaslState.FAILED}
    if not isinstance(session, SaslSession) or session.server.state not in expected:
        text = "SaslAuthenticate does not follow a SaslHandshake."
        reply(_fields(ErrorCode.ILLEGAL_SASL_STATE, text))
        if isinstance(session, SaslSession) and session.server.state is SaslState.NEW:
            session.fail()
        return
    outcome = session.take(request.body.auth_bytes)
    if outcome.reason:
        text = FAILED_BEARER if session.server.mechanism == OAUTHBEARER else FAILED
        reply(_fields(ErrorCode.SASL_AUTHENTICATION_FAILED, text))
        session.fail()
        return
    answer = _fields(ErrorCode.NONE, None) | {"auth_bytes": outcome.token}
    if request.api_version >= SESSION_VERSION:
        answer["session_lifetime_ms"] = session.session_ms if outcome.user is not None else 0
    reply(answer)


def _fields(code: ErrorCode, text: str | None) -> dict[str, object]:
    return {"error_code": code, "error_message": text, "auth_bytes": b""}
