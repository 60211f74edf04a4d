"""Messages and bodies that clients compress, read within a bound.

Source: gzip (RFC 1952) by the standard library. One more byte than permitted is asked for, and so
nothing larger is ever made (a bomb of a kilobyte holds a megabyte).
"""

import zlib
from typing import Final

from penstock.base.ports import Buffer

_GZIP_WINDOW: Final = 31


class NotGzip(Exception):
    """The bytes are no gzip, or no whole one."""


class TooLarge(Exception):
    """They unpack to more than is permitted."""


def inflate(data: Buffer, bytes_max: int) -> bytes:
    """Return what a gzip of one member holds. Raises NotGzip, TooLarge."""
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacking.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise NotGzip from error
    if len(plain) > bytes_max:
        raise TooLarge
    if not unpacking.eof or unpacking.unused_data:
        raise NotGzip
    return plain
