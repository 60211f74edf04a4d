"""Cases of who a client is, and of users; see `gate_cases`."""

from penstock.broker.access import Operation
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import (
    ALTER,
    CLUSTER,
    DESCRIBE,
    HIDDEN,
    ON_CLUSTER,
    Case,
    always,
    of_each,
    whole,
)

ACCESS_CASES = [
    Case(
        ApiKey.SASL_HANDSHAKE, 1, set(), always({"mechanism": "PLAIN"}),
        whole, {"": Code.ILLEGAL_SASL_STATE}, {"": Code.ILLEGAL_SASL_STATE}, names_hidden=False,
    ),
    Case(
        ApiKey.SASL_AUTHENTICATE, 2, set(), always({"auth_bytes": b""}),
        whole, {"": Code.ILLEGAL_SASL_STATE}, {"": Code.ILLEGAL_SASL_STATE}, names_hidden=False,
    ),
    Case(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {(Operation.DESCRIBE_CONFIGS, ON_CLUSTER)},
        always({"components": [], "strict": False}),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, {(Operation.ALTER_CONFIGS, ON_CLUSTER)},
        always({
            "entries": [{"entity": [{"entity_type": "user", "entity_name": HIDDEN}], "ops": []}],
            "validate_only": False,
        }),
        lambda answer: {one.entity[0].entity_name: one.error_code for one in answer.entries},
        {HIDDEN: CLUSTER}, {HIDDEN: CLUSTER},
    ),
    Case(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {(DESCRIBE, ON_CLUSTER)},
        always({"users": [{"name": HIDDEN}]}),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {(ALTER, ON_CLUSTER)},
        always({"deletions": [{"name": HIDDEN, "mechanism": 1}], "upsertions": []}),
        of_each("results", "user"), {HIDDEN: CLUSTER}, {HIDDEN: CLUSTER},
    ),
]  # fmt: skip
