"""Simulated processes: one object per incarnation, from its start to its end.

    start ─► running ─► exited        its main coroutine returned or failed
               │ ▲ │
         pause │ │ resume             SIGSTOP: nothing of it runs, its kernel still takes bytes
               ▼ │ ▼
             paused ─► killed         SIGKILL: no `finally`, no handler; its kernel closes sockets
                     ─► powered off   like killed, but peers get no packets

The process of a callback is known from its context (contextvars), which every callback, task and
timer inherits from its creator. Callbacks of one process run in the order in which they were
scheduled; the loop chooses between processes.

The coroutines of an ended process stay referenced until the run is over: collecting them would run
their `finally` blocks, which a kill does not.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from enum import Enum
from typing import Any, NamedTuple, Protocol

Main = Callable[["Process"], Coroutine[Any, Any, int | None]]
"""What a process runs. It returns the exit code (None: 0), soon after `process.stopping` is set."""

ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


class End(Enum):
    """How an incarnation came to its end."""

    EXITED = "exited"
    KILLED = "killed"
    POWERED_OFF = "powered off"
    RUN_OVER = "run over"
    """The simulation ended while the process ran."""


class Failure(NamedTuple):
    """An error that the process did not handle: of a callback, of a task, of its main."""

    at_s: float
    process: str
    message: str
    error: BaseException | None


class Scheduled(Protocol):
    """A callback in the queue of its process."""

    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: Context


class ProcessLoop(Protocol):
    """What a process needs of the loop that runs it."""

    def create_future(self) -> asyncio.Future[Any]: ...
    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle: ...
    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle: ...
    def end_process(self, process: "Process", end: End) -> None: ...
    def pause_process(self, process: "Process") -> None: ...
    def resume_process(self, process: "Process") -> None: ...


class Process:
    """One incarnation of a process on a host. Made by `Simulation.start`."""

    __slots__ = (
        "context",
        "end",
        "ended",
        "exception_handler",
        "exit_code",
        "failures",
        "graveyard",
        "host",
        "is_paused",
        "is_runnable",
        "loop",
        "name",
        "number",
        "on_end",
        "on_over",
        "queue",
        "stopping",
    )

    def __init__(self, loop: ProcessLoop, *, host: str, name: str, number: int) -> None:
        """`number` is its place in the trace: unique in the run, the same in each repetition."""
        self.loop = loop
        self.host = host
        self.name = name
        self.number = number
        self.is_paused = False
        self.is_runnable = True
        """Alive and not paused: the loop may choose it."""
        self.end: End | None = None
        """None as long as it lives."""
        self.exit_code: int | None = None
        """After EXITED: what its main returned (0 for None), or 1 after an exception."""
        self.ended: asyncio.Future[End] = loop.create_future()
        """Done when the process has ended, whichever way. Await it from another process."""
        self.on_end: list[Callable[[End], None]] = []
        """Called at the very moment of the end, outside the process: page cache, locks, ..."""
        self.on_over: list[Callable[[], None]] = []
        """Called when nothing of it will run any more: at its end, or that of the run."""
        self.stopping = asyncio.Event()
        """Set by `stop`: the main coroutine is asked to return."""
        self.failures: list[Failure] = []
        self.exception_handler: ExceptionHandler | None = None
        self.queue: deque[Scheduled] = deque()
        self.graveyard: list[object] = []
        self.context = Context()
        self.context.run(PROCESS.set, self)

    @property
    def is_alive(self) -> bool:
        """Whether anything of it may still run; a paused process is alive."""
        return self.end is None

    def call_soon(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Run the callback as this process, behind what it has to do already."""
        return self.loop.call_soon(callback, *args, context=self.context)

    def call_later(
        self, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Run the callback as this process after `delay_s` of virtual time, if it lives then."""
        return self.loop.call_later(delay_s, callback, *args, context=self.context)

    def stop(self) -> None:
        """Ask its main to return, as SIGTERM does: `stopping` is set. Wait with `ended`."""
        self.call_soon(self.stopping.set)

    def kill(self) -> None:
        """End it at once, like SIGKILL; its kernel closes its connections. Can be repeated."""
        self.loop.end_process(self, End.KILLED)

    def pause(self) -> None:
        """Stop it as SIGSTOP does: nothing of it runs; bytes for it are taken while they fit."""
        self.loop.pause_process(self)

    def resume(self) -> None:
        """Go on as SIGCONT does: all timers that fell due run at once, late."""
        self.loop.resume_process(self)

    def __repr__(self) -> str:
        return f"<{self.name}#{self.number} on {self.host}>"


PROCESS: ContextVar[Process] = ContextVar("simulated process")


def current_process() -> Process:
    """Return the process that runs now. Raises RuntimeError outside of any."""
    process = PROCESS.get(None)
    if process is None:
        raise RuntimeError("no simulated process runs here: start one with Simulation.start")
    return process


def process_of(context: Context | None) -> Process | None:
    """Return the process of a context, or of the present one without; None outside of any."""
    return PROCESS.get(None) if context is None else context.get(PROCESS)
