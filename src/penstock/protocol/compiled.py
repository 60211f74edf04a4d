"""Functions on the path of every request and every Produce: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.protocol._produce import (
        appended,
        encode_appended,
        parse_produce_request,
        parse_produce_run,
        parse_request_header,
    )
except ImportError:  # no C compiler at installation
    from penstock.protocol.header import parse_request_header
    from penstock.protocol.produce import appended, encode_appended, parse_produce_request
    from penstock.protocol.produce_run import parse_produce_run

__all__ = [
    "appended",
    "encode_appended",
    "parse_produce_request",
    "parse_produce_run",
    "parse_request_header",
]
