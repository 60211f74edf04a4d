"""Signals that ask a process to end, from its first moment to its last."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_DRAIN_BYTES = 4096
_NO_DESCRIPTOR = -1


@contextmanager
def end_signals(
    numbers: tuple[signal.Signals, ...], on_signal: Callable[[signal.Signals], object]
) -> Iterator[None]:
    """Call `on_signal` in the running loop for each of these signals; ignore them after the block.

    A signal that comes in the last moments of a process, since somebody asks twice, must not end it
    as if it had been killed. So these are no handlers of the loop: a loop that gives one up, at the
    latest when it is closed, gives the signal its default action back, and another thread may get a
    signal just then. Call it in the main thread.
    """
    loop = asyncio.get_running_loop()
    untold: set[int] = set()

    def take(number: int, _frame: FrameType | None) -> None:
        if number not in untold:  # those of one turn are one, as they are for the kernel
            untold.add(number)
            loop.call_soon_threadsafe(tell, number)

    def tell(number: int) -> None:
        untold.discard(number)
        on_signal(signal.Signals(number))

    with _woken_by_signals(loop):
        for number in numbers:
            signal.signal(number, take)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, signal.SIG_IGN)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Wake the loop when a signal comes, which another thread may get; uvloop does so by itself."""
    present = signal.set_wakeup_fd(_NO_DESCRIPTOR)
    if present != _NO_DESCRIPTOR:
        signal.set_wakeup_fd(present, warn_on_full_buffer=False)
        yield
        return
    woken, waker = socket.socketpair()
    with woken, waker:
        woken.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        loop.add_reader(woken, woken.recv, _DRAIN_BYTES)
        try:
            yield
        finally:
            signal.set_wakeup_fd(_NO_DESCRIPTOR)
            loop.remove_reader(woken)
