"""Cases of requests that need no permission; see `gate_cases`."""

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import NONE, Case, always, whole

OPEN_CASES = [
    Case(
        ApiKey.API_VERSIONS, 3, set(),
        always({"client_software_name": "test", "client_software_version": "1"}),
        whole, {"": NONE}, {"": NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, set(), always({"client_instance_id": None}),
        whole, {"": NONE}, {"": NONE}, names_hidden=False,
    ),
    Case(
        ApiKey.PUSH_TELEMETRY, 0, set(),
        always({
            "client_instance_id": None, "subscription_id": 1, "terminating": False,
            "compression_type": 0, "metrics": b"",
        }),
        whole, {"": Code.INVALID_REQUEST}, {"": Code.INVALID_REQUEST}, names_hidden=False,
    ),
]  # fmt: skip
