from collections.abc import Callable, Sequence

from penstock.remoting.pop.records import Seen

def usual_messages(
    messages: Sequence[tuple[Seen, int]],
    topic: bytes,
    same: bytes,
    place: tuple[int, int],
    topic_crc: int,
    host_text: Callable[[bytes], bytes],
) -> list[bytes | None]: ...
