"""Signals that ask a process to end, from its first moment to its last."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def end_signals(
    numbers: tuple[signal.Signals, ...], on_signal: Callable[[signal.Signals], object]
) -> Iterator[None]:
    """Call `on_signal` in the running loop for each of these signals; ignore them after the block.

    A loop that closes gives signals their default action back. A signal that comes between that
    and the end of the process, since somebody asks twice, would end it as if it had been killed.
    """
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
