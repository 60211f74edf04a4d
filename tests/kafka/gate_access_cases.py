"""Cases of who a client is, and of users; see `gate_cases`."""

from penstock.broker.access import Operation
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import (
    ALTER,
    CLUSTER,
    DESCRIBE,
    HIDDEN,
    NONE,
    ON_CLUSTER,
    ON_TOKEN,
    ON_USER,
    OPEN,
    Case,
    always,
    ms,
    of_each,
    whole,
)

PROVER = "User:prover"
"""Who asks for tokens: it has none itself, and may renew none."""
TOKEN_REFUSED = Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def token_of(name: str) -> dict[str, object]:
    """Ask for a token of somebody."""
    owner = {"owner_principal_type": "User", "owner_principal_name": name}
    return {**owner, "renewers": (), "max_lifetime": ms(-1)}


ACCESS_CASES = [
    Case(
        ApiKey.CREATE_DELEGATION_TOKEN, 3, {(Operation.CREATE_TOKENS, ON_USER)},
        always(token_of(HIDDEN)),
        whole, {"": TOKEN_REFUSED}, {"": TOKEN_REFUSED}, who=PROVER,
    ),
    Case(
        ApiKey.RENEW_DELEGATION_TOKEN, 2, set(), always({"hmac": b"x", "renew_period": ms(-1)}),
        whole, {"": Code.DELEGATION_TOKEN_NOT_FOUND}, {"": Code.DELEGATION_TOKEN_NOT_FOUND},
        names_hidden=False, who=PROVER,
    ),
    Case(
        ApiKey.EXPIRE_DELEGATION_TOKEN, 2, set(),
        always({"hmac": b"x", "expiry_time_period": ms(-1)}),
        whole, {"": Code.DELEGATION_TOKEN_NOT_FOUND}, {"": Code.DELEGATION_TOKEN_NOT_FOUND},
        names_hidden=False, who=PROVER,
    ),
    Case(
        ApiKey.DESCRIBE_DELEGATION_TOKEN, 3,
        {(DESCRIBE, ON_TOKEN), (Operation.DESCRIBE_TOKENS, ON_USER)},
        always({"owners": None}),
        lambda answer: {one.principal_name: answer.error_code for one in answer.tokens},
        {}, {OPEN: NONE}, names_hidden=False, who=PROVER,
    ),
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
