"""Error codes of the coordinator as clients of each version know them.

Source: KIP-588: PRODUCER_FENCED is told as INVALID_PRODUCER_EPOCH to older clients.
"""

from penstock.protocol.error_codes import ErrorCode

FENCED_VERSION_INIT = 4
FENCED_VERSION_ADD = 2
FENCED_VERSION_END = 2


def told_code(code: ErrorCode, version: int, fenced_version: int) -> ErrorCode:
    """Return what a client is told; `fenced_version` is the first that knows PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
