"""Work for a call that goes on after its turn.

    PlatformError      the call is answered with its code and text
    anything else      a bug: logged with its traceback, counted; the call ends with INTERNAL

Source: ours; remoting/pop/serving.py.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PlatformError
from penstock.base.invariant import InvariantViolation
from penstock.grpc.statuses import GrpcStatus

if TYPE_CHECKING:
    from penstock.grpc.call import Call

log = logging.getLogger(__name__)


def serve(call: Call, name: str, work: Coroutine[Any, Any, None]) -> None:
    """Run the rest of a call; it ends with its answer."""
    call.client.front.spawn(name, _run(call, work))


async def _run(call: Call, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except InvariantViolation:
        raise
    except PlatformError as error:
        call.fail(error)
    except Exception:
        log.exception("client: %s; unhandled", call.client.host)
        call.client.broker.stats.count_request_error("unhandled")
        call.end(GrpcStatus.INTERNAL, "the call has failed")
