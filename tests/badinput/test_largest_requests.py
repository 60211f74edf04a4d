"""The largest requests of an API fill the frame that they are built for, and go into it."""

import pytest

from harness.bad_input.largest import has_arrays, largest_requests
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey

FRAME_BYTES = 128 << 10
"""Names at the end of so long a request are longer than those that its size is guessed from."""

SMALL_BYTES = 3_900
"""Room for two elements with records, and for hundreds of small ones."""


@pytest.mark.parametrize(
    "key", [ApiKey.DESCRIBE_GROUPS, ApiKey.STREAMS_GROUP_HEARTBEAT], ids=lambda key: key.name
)
def test_a_request_of_growing_names_nearly_fills_its_frame(key: ApiKey) -> None:
    requests = largest_requests(key, load_apis()[key].max_version, FRAME_BYTES)
    sizes = [len(one.frame) for one, _ in zip(requests, range(4), strict=False)]
    assert 0.99 * FRAME_BYTES < max(sizes) <= FRAME_BYTES


def test_every_request_fills_half_of_its_frame_and_most_fill_it() -> None:
    apis = [key for key, api in load_apis().items() if has_arrays(key, api.max_version)]
    sizes = [
        len(one.frame)
        for key in apis
        for one in largest_requests(key, load_apis()[key].max_version, SMALL_BYTES)
    ]
    assert len(sizes) >= 2 * len(apis) > 0
    assert min(sizes) > SMALL_BYTES // 2
    assert max(sizes) <= SMALL_BYTES
    assert sum(size > 0.9 * SMALL_BYTES for size in sizes) > 0.95 * len(sizes)
