"""What every message to a consumer is encoded with: compiled if built, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.protobuf._fields import encode_fields
except ImportError:  # no C compiler at installation
    from penstock.protobuf.fields import encode_fields

__all__ = ["encode_fields"]
