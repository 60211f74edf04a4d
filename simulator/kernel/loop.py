"""An event loop with virtual time, in which a seed decides the order between processes.

    queues   world │ h1 │ h2 │ ...      call_soon appends to the queue of the callback's process
    timers   (when, serial, handle)     due ones go to the end of their process's queue
    step     one callback of a process drawn by the seed; costs STEP_S of virtual time
    idle     time jumps to the next timer; none left: Deadlock

Within one process callbacks run in the order in which they were scheduled, as asyncio promises.
Unhandled errors are recorded, then passed to the exception handler of their process: each process
has its own.

It uses BaseEventLoop for running and stopping, and CPython 3.11's private names `_run_once` and
`_stopping`; the tests would fail if they changed.

Threads (executors run inline), signals, subprocesses and TLS are not simulated.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, TypeVar

from simulator.kernel.disposal import dispose_of, leave_unbegun, silenced, tasks_of
from simulator.kernel.handles import SimFuture, SimHandle, SimTask
from simulator.kernel.loop_network import LoopNetwork
from simulator.kernel.network import Network
from simulator.kernel.process import (
    PROCESS,
    End,
    ExceptionHandler,
    Failure,
    Main,
    Process,
    process_of,
)
from simulator.kernel.trace import Trace, Value

T = TypeVar("T")

START_S = 1_000.0
"""Loop time at the start of a run: zero means "never" to some code, and no machine is that new."""
STEP_S = 2e-6
"""Virtual time that a callback costs."""

_TIMERS_CANCELLED_MIN = 256
"""Cancelled timers are swept out when there are so many and they are the majority."""


class Deadlock(Exception):
    """Nothing is left that could ever run, and the story has not ended."""


class BoundExceeded(Exception):
    """The run took more callbacks or virtual time than it may."""


class SimLoop(LoopNetwork):
    """See the module. `Simulation` is the surface for stories."""

    _stopping: bool  # set by the base class's `stop`

    def __init__(self, seed: int, *, steps_max: int, seconds_max: float) -> None:
        """`steps_max` callbacks and `seconds_max` virtual seconds end the run as an error."""
        self._now = START_S
        self._serial = 0
        super().__init__()
        self.set_debug(False)
        self.seed = seed
        self.steps = 0
        self.is_over = False
        """From here on nothing that is scheduled runs, and nothing that is sent leaves."""
        self.trace = Trace()
        self.failures: list[Failure] = []
        self._steps_max = steps_max
        self._end_s = START_S + seconds_max
        self._timers: list[tuple[float, int, SimHandle]] = []
        self._timers_cancelled = 0
        self._active: list[Process] = []
        self._draw = self.random_for("order").random
        self.processes: list[Process] = []
        self.kernel = Process(self, host="", name="network", number=0)
        """Whatever belongs to no process: the network, the kernels of the hosts."""
        self.world = Process(self, host="world", name="world", number=1)
        self.processes.append(self.world)
        self.network = Network(self)
        self.network.add_host(self.world.host)
        self.set_task_factory(_make_task)

    # --- time, randomness, trace ---------------------------------------------------------------

    def time(self) -> float:
        """Return virtual time in seconds; a run begins at START_S."""
        return self._now

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the run began."""
        return self._now - START_S

    def next_serial(self) -> int:
        """Return a number that was not given before in this run."""
        self._serial += 1
        return self._serial

    def random_for(self, name: str) -> Random:
        """Return a random source of its own, which follows from the seed and the name."""
        return Random(f"{self.seed} {name}")  # noqa: S311  no secret: it must repeat

    def note(self, name: str, *values: Value) -> None:
        """Put a named event into the trace."""
        self.trace.note(self.elapsed_s, name, *values)

    # --- scheduling ----------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Append the callback to its process's queue."""
        handle = SimHandle(self, callback, args, context)
        if not self.is_over:
            process = handle.process
            if not process.queue and process.is_runnable:
                self._active.append(process)
            process.queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Append the callback to its process's queue at the loop time `when`."""
        handle = SimHandle(self, callback, args, context, max(when, 0.0))
        if not self.is_over:
            self._serial += 1
            heappush(self._timers, (when, self._serial, handle))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Append the callback to its process's queue in `delay` seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def timer_cancelled(self) -> None:
        """Sweep cancelled timers out when they are many; each handle tells once."""
        self._timers_cancelled += 1
        count = self._timers_cancelled
        if count >= _TIMERS_CANCELLED_MIN and count * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].is_cancelled]
            heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future whose hash repeats."""
        return SimFuture(loop=self, serial=self.next_serial())

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function here and now; the answer comes with the next callback."""
        future = self.create_future()
        try:
            done: Callable[[], None] = _setter(future.set_result, func(*args))
        except Exception as error:  # noqa: BLE001  it is handed to whoever waits
            done = _setter(future.set_exception, error)
        self.call_soon(lambda: None if future.done() else done())
        return future

    # --- running -------------------------------------------------------------------------------

    def run_story(self, story: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine as the world, until it ends."""
        task: asyncio.Task[T] = self.create_task(story, context=self.world.context)
        return self.run_until_complete(task)

    def _run_once(self) -> None:
        """Run callbacks until the loop is stopped; the base class calls it in a loop."""
        active = self._active
        draw = self._draw
        step = self.trace.step
        while not self._stopping:
            timers = self._timers
            if timers and timers[0][0] <= self._now:
                self._queue_due(timers)
            if not active:
                self._skip_to_next_timer()
                continue
            count = len(active)
            place = int(draw() * count) if count > 1 else 0
            process = active[place]
            queue = process.queue
            handle = queue.popleft()
            if not queue:
                active[place] = active[-1]
                active.pop()
            callback = handle.callback
            if callback is None:
                continue  # cancelled
            self.steps += 1
            self._now += STEP_S
            step(self._now, process.number)
            try:
                handle.context.run(callback, *handle.args)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  recorded, or the process ends of it
                self._on_callback_error(process, error)
            if self.steps >= self._steps_max:
                raise BoundExceeded(f"{self.steps} callbacks at {self.elapsed_s:.3f} s")

    def _queue_due(self, timers: list[tuple[float, int, SimHandle]]) -> None:
        now = self._now
        while timers and timers[0][0] <= now:
            handle = heappop(timers)[2]
            if handle.is_cancelled:
                self._timers_cancelled -= 1
                continue
            handle.at_s = -1.0  # no longer a timer: cancelling it leaves nothing to sweep
            process = handle.process
            if not process.queue and process.is_runnable:
                self._active.append(process)
            process.queue.append(handle)

    def _skip_to_next_timer(self) -> None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"nothing is left to run at {self.elapsed_s:.3f} s")
        self._now = max(self._now, timers[0][0])
        if self._now > self._end_s:
            raise BoundExceeded(f"{self.elapsed_s:.3f} virtual seconds, {self.steps} callbacks")

    # --- errors that nobody handled ------------------------------------------------------------

    def _on_callback_error(self, process: Process, error: BaseException) -> None:
        if process is self.kernel:
            raise error
        if isinstance(error, SystemExit):
            process.exit_code = error.code if isinstance(error.code, int) else int(bool(error.code))
            self.end_process(process, End.EXITED)
            return
        self._fail(process, {"message": "a callback failed", "exception": error})

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """Set the handler of the process that calls."""
        (PROCESS.get(None) or self.kernel).exception_handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        """Return the handler of the process that calls."""
        return (PROCESS.get(None) or self.kernel).exception_handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record the error, and call the handler of the process that it belongs to."""
        owner = context.get("task") or context.get("future")
        process = getattr(owner, "process", None) or PROCESS.get(None) or self.kernel
        self._fail(process, context)

    def _fail(self, process: Process, context: dict[str, Any]) -> None:
        if self.is_over or not process.is_alive:
            return
        error = context.get("exception")
        message = str(context.get("message") or "an error that nobody handled")
        self._record(process, message, error)
        handler = process.exception_handler
        if handler is not None:
            try:
                handler(self, context)
            except Exception as failed:  # noqa: BLE001  recorded as well
                self._record(process, "the exception handler failed", failed)

    def _record(self, process: Process, message: str, error: BaseException | None) -> None:
        failure = Failure(self.elapsed_s, repr(process), message, error)
        self.failures.append(failure)
        process.failures.append(failure)
        self.note("failure", repr(process), type(error).__name__)

    # --- processes -----------------------------------------------------------------------------

    def start_process(self, host: str, name: str, main: Main) -> Process:
        """See Simulation.start."""
        self.network.switch_on(host)
        process = Process(self, host=host, name=name, number=len(self.processes) + 1)
        self.processes.append(process)
        self.note("start", repr(process))
        process.call_soon(self._begin, process, main)
        return process

    def _begin(self, process: Process, main: Main) -> None:
        task: asyncio.Task[int | None] = self.create_task(main(process), name=process.name)

        def on_done(_task: asyncio.Task[int | None]) -> None:
            self._on_main_done(process, task)

        task.add_done_callback(on_done, context=self.kernel.context)

    def _on_main_done(self, process: Process, task: asyncio.Task[int | None]) -> None:
        if not process.is_alive:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._record(process, "main failed", error)
        failed = error is not None or task.cancelled()
        process.exit_code = 1 if failed else (task.result() or 0)
        self.end_process(process, End.EXITED)

    def end_process(self, process: Process, end: End) -> None:
        """See Process.kill."""
        assert process not in (self.kernel, self.world), "neither can end before the run"
        if not process.is_alive:
            return
        self.note("end", repr(process), end.value)
        if process.queue and process.is_runnable:
            self._active.remove(process)
        process.end = end
        process.is_runnable = False
        process.graveyard += tasks_of(self, process)
        self.network.process_ended(process, end)
        for over in process.on_over:
            over()
        for callback in process.on_end:
            callback(end)
        process.ended.set_result(end)

    def pause_process(self, process: Process) -> None:
        """See Process.pause."""
        if process.is_alive and not process.is_paused:
            self.note("pause", repr(process))
            if process.queue:
                self._active.remove(process)
            process.is_paused = True
            process.is_runnable = False

    def resume_process(self, process: Process) -> None:
        """See Process.resume."""
        if process.is_alive and process.is_paused:
            self.note("resume", repr(process))
            process.is_paused = False
            process.is_runnable = True
            if process.queue:
                self._active.append(process)

    def power_off(self, host: str) -> list[Process]:
        """See Simulation.power_off."""
        self.note("power off", host)
        self.network.switch_off(host)
        ended = [each for each in self.processes if each.host == host and each.is_alive]
        for process in ended:
            self.end_process(process, End.POWERED_OFF)
        return ended

    def dispose(self) -> None:
        """End all processes and forget their coroutines; whatever those still do has no effect."""
        with silenced():
            gc.collect()  # failed tasks that only a cycle holds are told of now
            self.is_over = True
            for process in self.processes:
                if process.is_alive:
                    for over in process.on_over:
                        over()
                process.end = process.end or End.RUN_OVER
                process.is_runnable = False
            dispose_of(self, [*self.processes, self.kernel])
            self._timers.clear()
            self.network.dispose()
            self.close()
            gc.collect()


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
) -> SimTask:
    assert isinstance(loop, SimLoop)
    process = process_of(context) or loop.kernel
    task = SimTask(coro, loop=loop, serial=loop.next_serial(), process=process, context=context)
    if loop.is_over:
        leave_unbegun(task)
    return task


def _setter(function: Callable[[Any], None], value: Any) -> Callable[[], None]:
    return lambda: function(value)
