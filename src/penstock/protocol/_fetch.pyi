from collections.abc import Sequence

from penstock.base.ports import Buffer
from penstock.protocol.fetch import FetchAnswer, FetchRequest
from penstock.protocol.primitives import LeaderEndpoint

def parse_fetch_request(frame: memoryview, at: int, version: int) -> FetchRequest: ...
def encode_fetch_response(
    version: int,
    answers: Sequence[FetchAnswer],
    *,
    session_id: int = 0,
    error_code: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[LeaderEndpoint] = (),
) -> list[Buffer]: ...
