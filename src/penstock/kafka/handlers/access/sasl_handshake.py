"""SaslHandshake (key 17), versions 0 and 1: the client chooses a mechanism.

After version 0 tokens follow as bare frames, after version 1 in SaslAuthenticate.

Source: Kafka `SaslServerAuthenticator.handleHandshakeRequest`, KIP-43, KIP-152. Where a client has
nothing to prove the answer is ILLEGAL_SASL_STATE, as in `KafkaApis.handleSaslHandshakeRequest`.
"""

from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.kafka.sasl.session import SaslSession
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.SASL_HANDSHAKE
VERSIONS = range(2)
TOKENS_IN_REQUESTS_VERSION = 1


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Begin an exchange; an unknown mechanism is answered with those that are known."""
    del context
    session = request.connection.guard
    if not isinstance(session, SaslSession) or not session.may_choose():
        reply({"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": ()})
        return
    mechanisms = session.server.mechanisms
    is_bare = request.api_version < TOKENS_IN_REQUESTS_VERSION
    if session.choose(request.body.mechanism, is_bare=is_bare):
        reply({"error_code": ErrorCode.NONE, "mechanisms": mechanisms})
        return
    reply({"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": mechanisms})
    session.fail()
