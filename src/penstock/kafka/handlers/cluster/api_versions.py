"""ApiVersions (key 18), versions 0 to 4: the APIs that the handler modules declare.

An unknown version does not get here: dispatch answers it in version 0 with error 35, so that the
client can retry. Features are those of `metadata/levels`: `transaction.version`, by which clients
choose the second protocol of transactions, `group.version`, and the own `penstock.metadata`, whose
level 3 is needed by the others. At its first level the cluster has no feature epoch, and returns
none.

Source: Kafka `ApiVersionManager`, KIP-35, KIP-511 (client software names, the way down), KIP-584
(features), KIP-890 (`transaction.version`).
"""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import FEATURES_LEVEL, FIRST_LEVEL, SUPPORTED
from penstock.kafka.context import TEXT_KEPT_MAX, RequestContext, Software
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.messages import encode_response

KEY = ApiKey.API_VERSIONS
VERSIONS = range(5)
CLIENT_SOFTWARE_VERSION = 3
FEATURES_VERSION = 3
NO_EPOCH = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer with a pre-encoded body."""
    version = request.api_version
    error = ErrorCode.NONE
    if version >= CLIENT_SOFTWARE_VERSION:
        named = Software(request.body.client_software_name, request.body.client_software_version)
        if all(_SOFTWARE.fullmatch(text) for text in named):
            context.software = Software(*(text[:TEXT_KEPT_MAX] for text in named))
        else:
            error = ErrorCode.INVALID_REQUEST
    finalised = _finalised(context.broker.metadata)
    encode = _body if reply.throttle_ms else _kept_body
    apis = tuple(context.front.api_versions())
    reply.raw(encode(version, error, apis, finalised, reply.throttle_ms))


class Finalised(NamedTuple):
    """The finalised levels of the cluster, and their epoch, which grows with each change."""

    epoch: int
    levels: tuple[tuple[str, int], ...]


def _finalised(image: ClusterImage) -> Finalised:
    levels = dict(image.features)
    if image.metadata_level >= FEATURES_LEVEL:
        levels = dict.fromkeys(SUPPORTED, FIRST_LEVEL) | levels
    return Finalised(image.features_epoch, tuple(sorted(levels.items())))


def _body(
    version: int,
    error: ErrorCode,
    apis: tuple[tuple[int, int, int], ...],
    finalised: Finalised,
    throttle_ms: int,
) -> bytes:
    told = {"error_code": error, "throttle_time_ms": throttle_ms}
    if error == ErrorCode.INVALID_REQUEST:
        return encode_response(KEY, version, {**told, "api_keys": ()})
    fields: dict[str, object] = {
        **told,
        "api_keys": [
            {"api_key": key, "min_version": lowest, "max_version": highest}
            for key, lowest, highest in apis
        ],
    }
    if version >= FEATURES_VERSION:
        fields |= _features(finalised)
    return encode_response(KEY, version, fields)


_kept_body = functools.lru_cache(maxsize=32)(_body)


def _features(finalised: Finalised) -> Mapping[str, object]:
    return {
        "supported_features": [
            {"name": name, "min_version": levels.lowest, "max_version": levels.highest}
            for name, levels in SUPPORTED.items()
        ],
        "finalized_features_epoch": finalised.epoch if finalised.levels else NO_EPOCH,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in finalised.levels
        ],
    }
