"""The client's package makes a directory for its logs in HOME as soon as it is imported."""

import os
import tempfile
from unittest.mock import patch

with (
    tempfile.TemporaryDirectory(prefix="penstock-grpc-") as _home,
    patch.dict(os.environ, {"HOME": _home}),
):
    import rocketmq.grpc_protocol  # noqa: F401
