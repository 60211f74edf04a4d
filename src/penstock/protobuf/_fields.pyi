from collections.abc import Sequence

from penstock.protobuf.fields import Field

def encode_fields(fields: Sequence[Field]) -> bytes: ...
