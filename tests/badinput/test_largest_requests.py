"""Requests of growing names are cut until they go into a frame, and not much further."""

import pytest

from harness.bad_input.largest import largest_requests
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey

FRAME_BYTES = 128 << 10
"""Names at the end of so long a request are longer than those that its size is guessed from."""


@pytest.mark.parametrize(
    "key", [ApiKey.DESCRIBE_GROUPS, ApiKey.STREAMS_GROUP_HEARTBEAT], ids=lambda key: key.name
)
def test_a_request_of_growing_names_nearly_fills_its_frame(key: ApiKey) -> None:
    requests = largest_requests(key, load_apis()[key].max_version, FRAME_BYTES)
    sizes = [len(one.frame) for one, _ in zip(requests, range(4), strict=False)]
    assert 0.99 * FRAME_BYTES < max(sizes) <= FRAME_BYTES
