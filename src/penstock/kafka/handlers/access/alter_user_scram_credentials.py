"""AlterUserScramCredentials (key 51), version 0: users get and lose SCRAM credentials.

A client sends the salted password, which is as good as the password; what the metadata log keeps of
it is derived here, and proves nothing to another server.

Source: Kafka `ScramControlManager`, KIP-554.
"""

from collections.abc import Mapping
from typing import Any

from penstock.access.scram import HASHES, keys_of
from penstock.base.errors import PlatformError
from penstock.broker.access import Operation, Resource
from penstock.broker.submitting import submit
from penstock.broker.turns import Pace
from penstock.controller.commands.access.commands import AlterScram, ScramRemoval, ScramUpsert
from penstock.controller.errors import InvalidMetadataRequest, MetadataError
from penstock.controller.metadata.config_records import ScramMechanism
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
VERSIONS = range(1)
IS_LONG = True
CHANGES_MAX = 200
"""In one request: their keys are computed in one turn, 2 ms, and replayed in another."""
_NAMES = {ScramMechanism.SHA_256: "SCRAM-SHA-256", ScramMechanism.SHA_512: "SCRAM-SHA-512"}


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Have the controller change them, user by user."""
    body = request.body
    refused: PlatformError | None = refusal(context, Operation.ALTER, Resource.CLUSTER)
    if refused is None and len(body.deletions) + len(body.upsertions) > CHANGES_MAX:
        refused = InvalidMetadataRequest(f"A request changes {CHANGES_MAX} credentials at most.")
    if refused is not None:
        return {"results": await _each(request, refused)}
    outcome = await submit(
        context.broker,
        AlterScram(
            removals=tuple(
                ScramRemoval(user=one.name, mechanism=one.mechanism) for one in body.deletions
            ),
            upserts=tuple(map(_upsert, body.upsertions)),
        ),
    )
    if isinstance(outcome, MetadataError):
        return {"results": await _each(request, outcome)}
    return {"results": [{"user": one.user} | error_fields(one.error) for one in outcome]}


def _upsert(one: Any) -> ScramUpsert:
    """Return the change; keys stay empty where no mechanism says how they are computed.

    The salted password may have any length but none, as in Kafka: kafka-go's own tests send a text.
    """
    name, salted = _NAMES.get(one.mechanism), one.salted_password
    keys = keys_of(name, salted, one.salt, one.iterations) if name and salted else None
    return ScramUpsert(
        user=one.name,
        mechanism=one.mechanism,
        salt=one.salt,
        stored_key=keys.stored_key if keys else b"",
        server_key=keys.server_key if keys else b"",
        iterations=one.iterations,
    )


async def _each(request: Request, error: PlatformError) -> list[dict[str, object]]:
    """Answer each user once with the same error."""
    pace, fields = Pace(request.turns), error_fields(error)
    users: dict[str, dict[str, object]] = {}
    for changes in (request.body.deletions, request.body.upsertions):
        for one in changes:
            await pace.step()
            users[one.name] = {"user": one.name, **fields}
    return list(users.values())


assert set(_NAMES.values()) == set(HASHES)
