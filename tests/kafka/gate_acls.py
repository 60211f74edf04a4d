"""The APIs of rules of access, asked by who may not see or change them (gate_cases.py)."""

from penstock.protocol.api_keys import ApiKey
from tests.kafka.gate_asks import ALTER, CLUSTER, DESCRIBE, ON_CLUSTER, OPEN, Case, always, whole

ACL = {
    "resource_type": 2,
    "resource_name": OPEN,
    "resource_pattern_type": 3,
    "principal": "User:u",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

ACL_CASES = [
    Case(
        ApiKey.DESCRIBE_ACLS, 3, {(DESCRIBE, ON_CLUSTER)}, always(ANY_ACL),
        whole, {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.CREATE_ACLS, 3, {(ALTER, ON_CLUSTER)}, always({"creations": [ACL]}),
        lambda answer: {"": answer.results[0].error_code},
        {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
    Case(
        ApiKey.DELETE_ACLS, 3, {(ALTER, ON_CLUSTER)}, always({"filters": [ANY_ACL]}),
        lambda answer: {"": answer.filter_results[0].error_code},
        {"": CLUSTER}, {"": CLUSTER}, names_hidden=False,
    ),
]  # fmt: skip
