"""Cases of who a client is, and of users; see `gate_cases`."""

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
