"""The table of APIs, derived from the modules in `kafka/handlers`; it says what is advertised.

A handler module has KEY, VERSIONS and one of
    handle(context, request, reply)            answers now or later through `reply`
    async handle(context, request) -> fields   if it waits for the controller (or encoded bytes)
    handle_frame(context, header, frame, reply)   parses its own bytes (Produce, Fetch)
and may have
    SLICED_BY                                    arrays by which long requests are cut (slices.py)
    WEIGH(context, element) -> int               how many plain elements an element stands for
    IS_LONG = True                               for short requests with long answers
    IS_HEAVY = True                              if elements cost so much that fewer make it long
    is_much(context, body) -> bool              whether this is one; then `handle_much` answers it,
    async handle_much(context, request) -> fields   and waits after every slice
    handle_run(context, memory, run, owe) -> reply   for requests that came together (Produce)
    is_offered(config) -> bool                  whether a broker with these settings has it at all
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.broker.config import BrokerConfig
from penstock.kafka import handlers
from penstock.kafka.needs import NEEDS


def always(_config: BrokerConfig) -> bool:
    """Offer an API whatever the settings are."""
    return True


def plain(_context: object, _element: object) -> int:
    """Weigh an element that is like all others."""
    return 1


class Api(NamedTuple):
    """One API as its handler module declares it; versions are inclusive."""

    key: int
    name: str
    min_version: int
    max_version: int
    advertised_min_version: int
    handle: Callable[..., Any]
    is_async: bool
    is_raw: bool
    handle_run: Callable[..., Any] | None = None
    sliced_by: tuple[tuple[str, ...], ...] = ()
    weigh: Callable[..., int] = plain
    is_long: bool = False
    """Whether every request has a place among long ones, and is answered in slices."""
    is_heavy: bool = False
    """Whether a request that can be cut is long from few elements on."""
    is_much: Callable[..., bool] | None = None
    handle_much: Callable[..., Any] | None = None
    is_offered: Callable[[BrokerConfig], bool] = always


def load_apis() -> dict[int, Api]:
    """Import every handler module and return the APIs by key, lowest key first."""
    found = pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}.")
    apis = [_api_of(importlib.import_module(one.name)) for one in found if not one.ispkg]
    by_key = {api.key: api for api in sorted(apis)}
    assert len(by_key) == len(apis), "two handler modules for one API"
    assert by_key.keys() == NEEDS.keys(), "each API has a row in needs.py"
    return by_key


def _api_of(module: Any) -> Api:
    is_raw = hasattr(module, "handle_frame")
    handle = module.handle_frame if is_raw else module.handle
    versions: range = module.VERSIONS
    return Api(
        key=int(module.KEY),
        name=module.KEY.name.lower(),
        min_version=versions.start,
        max_version=versions.stop - 1,
        advertised_min_version=getattr(module, "ADVERTISED_MIN_VERSION", versions.start),
        handle=handle,
        is_async=inspect.iscoroutinefunction(handle),
        is_raw=is_raw,
        handle_run=getattr(module, "handle_run", None),
        sliced_by=getattr(module, "SLICED_BY", ()),
        weigh=getattr(module, "WEIGH", plain),
        is_long=getattr(module, "IS_LONG", False),
        is_heavy=getattr(module, "IS_HEAVY", False),
        is_much=getattr(module, "is_much", None),
        handle_much=getattr(module, "handle_much", None),
        is_offered=getattr(module, "is_offered", always),
    )
