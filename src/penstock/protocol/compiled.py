"""What each request, Produce and Fetch goes through: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.protocol._fetch import encode_fetch_response, parse_fetch_request
    from penstock.protocol._produce import (
        appended,
        encode_appended,
        parse_produce_request,
        parse_produce_run,
        parse_request_header,
    )
except ImportError:  # no C compiler at installation
    from penstock.protocol.fetch import encode_fetch_response, parse_fetch_request
    from penstock.protocol.header import parse_request_header
    from penstock.protocol.produce import appended, encode_appended, parse_produce_request
    from penstock.protocol.produce_run import parse_produce_run

__all__ = [
    "appended",
    "encode_appended",
    "encode_fetch_response",
    "parse_fetch_request",
    "parse_produce_request",
    "parse_produce_run",
    "parse_request_header",
]
