"""DescribeUserScramCredentials (key 50), version 0: users' mechanisms and their iterations.

Salts and keys are for nobody's eyes.

Source: Kafka `ScramImage.describe`, KIP-554.
"""

from collections import Counter
from collections.abc import Mapping

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import Pace
from penstock.controller.errors import CredentialNotFound, DuplicateCredential, MetadataError
from penstock.controller.metadata.config_records import ScramMechanism
from penstock.kafka.answers.admin import error_fields
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import refusal
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
VERSIONS = range(1)
IS_LONG = True


async def handle(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Describe the users that are named, or all."""
    refused = refusal(context, Operation.DESCRIBE, Resource.CLUSTER)
    if refused is not None:
        return error_fields(refused) | {"results": ()}
    credentials = context.broker.metadata.configuration.credentials
    pace, asked = Pace(request.turns), Counter[str]()
    for one in request.body.users or ():
        await pace.step()
        asked[one.name] += 1
    wanted = list(asked) or sorted({user for user, _ in credentials})
    results: list[Mapping[str, object]] = []
    for user in wanted:
        await pace.step()
        found = [
            (mechanism, credentials[user, mechanism])
            for mechanism in ScramMechanism
            if (user, mechanism) in credentials
        ]
        error: MetadataError | None = None
        if asked[user] > 1:
            error = DuplicateCredential("A user is described once in a request.")
        elif not found:
            error = CredentialNotFound("The user has no credential.")
        infos = [{"mechanism": which, "iterations": one.iterations} for which, one in found]
        results.append(
            {"user": user, "credential_infos": () if error else infos} | error_fields(error)
        )
    return error_fields(None) | {"results": results}
