"""ApiVersions (key 18), versions 0 to 4: what the handler modules declare, and nothing else.

An unknown version never gets here: dispatch answers it in version 0 with error 35, so that the
client can ask again. No features are listed: transactions of version 2, share groups and
KIP-848 groups are not there, and a client would act on the claim.

Source: Kafka `ApiVersionManager`, KIP-35, KIP-511 (client software names, the way down), KIP-584
(features).
"""

import functools
import re

from penstock.kafka.front import KafkaFront
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import encode_response

KEY = ApiKey.API_VERSIONS
VERSIONS = range(5)
CLIENT_SOFTWARE_VERSION = 3

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(front: KafkaFront, request: Request, reply: Reply) -> None:
    """Answer from bytes that were encoded before."""
    version = request.api_version
    error = ErrorCode.NONE
    if version >= CLIENT_SOFTWARE_VERSION and not _is_named_well(request):
        error = ErrorCode.INVALID_REQUEST
    reply.raw(_body(version, error, tuple(front.api_versions())))


def _is_named_well(request: Request) -> bool:
    names = (request.body.client_software_name, request.body.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)


@functools.lru_cache(maxsize=32)
def _body(version: int, error: ErrorCode, apis: tuple[tuple[int, int, int], ...]) -> bytes:
    listed = () if error == ErrorCode.INVALID_REQUEST else apis
    fields = {
        "error_code": error,
        "api_keys": [
            {"api_key": key, "min_version": lowest, "max_version": highest}
            for key, lowest, highest in listed
        ],
    }
    return encode_response(KEY, version, fields)
