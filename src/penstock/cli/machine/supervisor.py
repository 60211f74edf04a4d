"""The supervisor behind `penstock serve`: starts the nodes of a machine, watches and stops them.

    SIGTERM, SIGINT    nodes end one after the other, each drained; a second one: all at once
    SIGHUP             rolling restart with the settings that the file has now
    a node ends        it is restarted after a growing pause; the others keep running
    this process ends  the nodes end, cleanly, by themselves (`penstock node --supervised-by`)

Only the `ready` line goes to stdout. Messages of the supervisor and the output of the nodes, each
line with the id of its node, go to stderr.

The supervisor has no data, so nothing is lost if it is killed. Every wait has a bound (`Patience`).
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence

from penstock.cli.exit_codes import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from penstock.cli.launch.node_process import ended, say
from penstock.cli.machine.pages import MachinePages
from penstock.cli.machine.plan import MachinePlan
from penstock.cli.machine.rolling import Rolling
from penstock.cli.machine.supervised_node import Patience, SupervisedNode
from penstock.node.pages.reading import pages_access, without_rules
from penstock.runtime.io.end_signals import end_signals
from penstock.runtime.io.http_server import HttpServer

ALL_FAILED = 0
"""Put into the queue of signals when no node can ever start."""


class Supervisor:
    """Runs the nodes of a plan. Call `run` once."""

    def __init__(
        self,
        plan: MachinePlan,
        plan_anew: Callable[[], MachinePlan],
        patience: Patience | None = None,
    ) -> None:
        """`plan_anew` reads the settings again; it raises ConfigError."""
        self._plan = plan
        patience = patience or Patience()
        self._patience = patience
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._nodes = [SupervisedNode(plan, node, patience) for node in plan.nodes]
        self._pages = MachinePages(self._nodes, lambda: self._rolling.state)
        self._rolling = Rolling(self._nodes, plan, plan_anew, patience, self._pages.health)

    async def run(self) -> int:
        """Return an exit code, once every node has ended."""
        told = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with end_signals(told, self._signals.put_nowait):
            return await self._run()

    async def _run(self) -> int:
        settings = self._plan.nodes[0].settings
        strict = without_rules(settings.access)
        access = pages_access(settings.security, lambda: strict)
        server = HttpServer(self._pages.pages, context=access.context, refuse=access.refuse)
        await server.start(self._plan.host, self._plan.port)
        lives = [asyncio.create_task(node.keep_running()) for node in self._nodes]
        for life in lives:
            life.add_done_callback(self._on_life_over)
        announcing = asyncio.create_task(self._announce())
        asked = await self._until_told_to_stop()
        announcing.cancel()
        await self._rolling.give_up()
        await self._stop_nodes()
        codes = await asyncio.gather(*lives)
        server.stop()
        return EXIT_USAGE if asked == ALL_FAILED else _exit_code(self._nodes, codes)

    def _on_life_over(self, life: asyncio.Task[int]) -> None:
        """Stop everything in order if a node's task has ended because of a bug."""
        if not life.cancelled() and life.exception() is not None:
            self._signals.put_nowait(signal.SIGTERM)

    async def _until_told_to_stop(self) -> int:
        """Return the signal that asks to stop; handle others meanwhile."""
        while (number := await self._signals.get()) == signal.SIGHUP:
            self._rolling.begin()
        return number

    async def _announce(self) -> None:
        """Print the `ready` line when all nodes are ready; notice if none ever will be."""
        while not all(node.is_ready for node in self._nodes):
            if all(node.last_code == EXIT_USAGE and not node.was_ready for node in self._nodes):
                self._signals.put_nowait(ALL_FAILED)
                return
            await asyncio.sleep(self._patience.poll_s)
        told = (node.planned.settings.node.advertised() for node in self._nodes)
        with contextlib.suppress(OSError):
            print(
                f"ready bootstrap={','.join(f'{host}:{port}' for host, port in told)}", flush=True
            )

    async def _stop_nodes(self) -> None:
        """End one node after the other, so that each hands over its masterships; each has a limit.

        The largest id first: controllers usually have the smallest ids, and the other nodes need
        them to hand over.
        """
        for node in self._nodes:
            node.leave_down()
        in_order = asyncio.create_task(self._stop_in_order())
        hurry = asyncio.create_task(self._until_told_again())
        await asyncio.wait({in_order, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if hurry.done():
            in_order.cancel()
            await asyncio.gather(*(node.stop() for node in self._nodes))
        else:
            hurry.cancel()
            await in_order

    async def _until_told_again(self) -> None:
        while await self._signals.get() == signal.SIGHUP:
            say("rolling restart: not begun, since all nodes are ending")

    async def _stop_in_order(self) -> None:
        for node in reversed(self._nodes):
            await node.stop()


def supervise(plan: MachinePlan, plan_anew: Callable[[], MachinePlan]) -> int:
    """Run the nodes of a machine until SIGTERM or SIGINT; return an exit code."""

    async def run() -> int:
        return await Supervisor(plan, plan_anew).run()

    return asyncio.run(run())


def _exit_code(nodes: Sequence[SupervisedNode], codes: Sequence[int]) -> int:
    """Return 0 if every node ended cleanly."""
    result = EXIT_OK
    for node, code in zip(nodes, codes, strict=True):
        # SIGTERM can arrive before the node handles it: that is a clean end as well.
        if code not in {EXIT_OK, -signal.SIGTERM}:
            say(f"node {node.broker_id} {ended(code)}; its lines above say why")
            result = EXIT_FAILED
    return result
