"""Work that pauses between two operations of its disk, so that other code may run in between.

    step ─► thread runs to the next operation at which it pauses, or to the end ─► step returns

It has a thread of its own that runs only during `step`: at any moment one thread runs and all
others wait, so that the caller of `step` decides the order of everything. If the process ends in
between, the rest of the work is never run.

The caller decides when the next step runs, and at which operations it pauses.
"""

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class Abandoned(BaseException):
    """Raised in work whose process is gone, at its next operation and at every one after that."""


class Worker:
    """One piece of work. `step` until it says that it has ended, or `abandon` it."""

    def __init__(self, work: Callable[[], Any], *, stops: Callable[[], bool]) -> None:
        """`stops` is called before each operation of the disk, in the work's thread."""
        self.result: Any = None
        self.failure: BaseException | None = None
        self._work = work
        self._stops = stops
        self._turn = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._has_ended = False
        self._is_abandoned = False
        self._thread: threading.Thread | None = None

    def step(self) -> bool:
        """Go on to the next stop; returns whether the work has ended."""
        if self._thread is None:
            context = copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True)
            self._thread.start()
        else:
            self._turn.release()
        self._stopped.acquire()
        if self._has_ended:
            self._thread.join()
        return self._has_ended

    def abandon(self) -> None:
        """Let the thread end without another effect on its disk. Again, or at the end: none.

        Work that ends its own process, as where power goes at one of its operations, ends at the
        next one: whoever runs it waits for its thread, and it can not.
        """
        if self._has_ended or self._is_abandoned:
            return
        self._is_abandoned = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self.step()

    @property
    def is_abandoned(self) -> bool:
        """Whether its result is for nobody."""
        return self._is_abandoned

    def before_operation(self) -> None:
        """Be called by the disk before each operation, in the thread of the work."""
        if self._is_abandoned:
            raise Abandoned
        if self._stops():
            self._stopped.release()
            self._turn.acquire()
        if self._is_abandoned:
            raise Abandoned

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001  handed on, as a thread does
            self.failure = error
        self._has_ended = True
        self._stopped.release()
