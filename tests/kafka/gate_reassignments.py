"""Cases of reassignments; see `gate_cases`."""

from penstock.protocol.api_keys import ApiKey
from tests.kafka.gate_asks import (
    ALTER,
    CLUSTER,
    DESCRIBE,
    HIDDEN,
    ON_CLUSTER,
    OPEN,
    Case,
    always,
    ms,
    whole,
)

REASSIGNMENT_CASES = [
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, {(ALTER, ON_CLUSTER)},
        always({
            "timeout": ms(9_000), "allow_replication_factor_change": True,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "replicas": [7]}]}
                for name in (OPEN, HIDDEN)
            ],
        }),
        lambda answer: {"": answer.error_code} | {
            topic.name: topic.partitions[0].error_code for topic in answer.responses
        },
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
        {"": CLUSTER, OPEN: CLUSTER, HIDDEN: CLUSTER},
    ),
    Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {(DESCRIBE, ON_CLUSTER)},
        always({"topics": None, "timeout": ms(9_000)}), whole, {"": CLUSTER}, {"": CLUSTER},
        names_hidden=False,
    ),
]  # fmt: skip
