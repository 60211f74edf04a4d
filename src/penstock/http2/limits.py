"""Bounds of one connection of HTTP/2.

Source: RFC 9113, section 10.5, and the published floods: CVE-2023-44487 (streams that are reset),
CVE-2025-8671 (streams that this side is made to reset), CVE-2024-27316 (CONTINUATION),
CVE-2019-9512 to 9518 (PING, SETTINGS, PRIORITY, empty frames, windows that let nothing through),
CVE-2016-6581 (headers that refer to large ones).
"""

from dataclasses import dataclass
from typing import Final

from penstock.http2.codes import FRAME_BYTES_MAX, WINDOW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """What a client may take of a connection. Times in ms, sizes in bytes."""

    streams_max: int = 256
    """Requests that are open at the same time; who sends more of them is told so, and waits."""
    block_bytes_max: int = FRAME_BYTES_MAX
    """Of one header block as it is sent."""
    continuations_max: int = 16
    """Frames that one header block goes on in."""
    header_list_bytes_max: int = FRAME_BYTES_MAX
    """Of one header block as it is read, 32 for each header included."""
    request_bytes_max: int = (4 << 20) + (64 << 10)
    """Of one request that is not read yet. One is always let through; how many more at a time says
    `more_bytes_max`."""
    more_bytes_max: int = 8 << 20
    """Of all requests that are not read yet, beside 64 KiB of each."""
    queued_bytes_max: int = 8 << 20
    """Of answers for which the client gives no window."""
    frames_burst: int = 2_000
    frames_per_second: int = 200
    """Frames that carry nothing of a request: each request allows for `FRAMES_PER_USE` more."""
    resets_burst: int = 200
    resets_per_second: int = 50
    """Streams that end before their answer, by either side."""
    settings_ms: int = 10_000
    """From the connection's beginning to the client's preface and settings."""
    block_ms: int = 10_000
    """From the first to the last frame of a header block."""
    request_ms: int = 30_000
    """Without progress of a request that is not whole, or of an answer."""


FRAMES_PER_USE: Final = 4
"""A client that reads much measures how much is on its way: PING and WINDOW_UPDATE."""
CONNECTION_WINDOW: Final = 16 << 20
"""Of all requests together: what 256 of them may send that nobody has asked on, so that none of
them waits for another one."""
assert CONNECTION_WINDOW >= 256 * WINDOW_BYTES
