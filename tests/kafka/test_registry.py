"""The table of APIs: every handler module is well formed, and the node says what is agreed."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

from harness.advertised import ADVERTISED, WITH_CLIENT_METRICS
from penstock.kafka import handlers
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from tests.live_node import running_node

AGREED = {key: (versions.start, versions.stop - 1) for key, versions in ADVERTISED.items()} | {
    ApiKey.PRODUCE: (0, 13),  # 0 to 2 are refused: librdkafka looks at the lower bound
}

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}.")
    if not found.ispkg
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
def test_a_handler_module_is_named_after_its_api_and_has_one_way_to_handle_it(
    module: ModuleType,
) -> None:
    assert module.KEY.name.lower() == module.__name__.split(".")[-1]
    assert isinstance(module.VERSIONS, range)
    assert module.VERSIONS.step == 1
    assert len(module.VERSIONS) > 0
    ways = [getattr(module, name, None) for name in ("handle", "handle_frame")]
    (way,) = [one for one in ways if one is not None]
    count = len(inspect.signature(way).parameters)
    if inspect.iscoroutinefunction(way):
        assert count == 2
    else:
        assert count == (4 if way.__name__ == "handle_frame" else 3)


def test_every_module_is_in_the_table_in_the_order_of_keys() -> None:
    apis = load_apis()
    assert list(apis) == sorted(int(module.KEY) for module in MODULES)


@pytest.mark.parametrize("takes_metrics", [False, True])
def test_the_node_advertises_the_agreed_versions(tmp_path: Path, takes_metrics: bool) -> None:
    with running_node(tmp_path, f"broker.client_metrics={str(takes_metrics).lower()}") as node:
        client = node.connect()
        software = {"client_software_name": "test", "client_software_version": "1"}
        answer = client.ask(ApiKey.API_VERSIONS, 3, software)
        client.close()
    said = {
        ApiKey(api_key.api_key): (api_key.min_version, api_key.max_version)
        for api_key in answer.api_keys
    }
    without = frozenset[ApiKey]() if takes_metrics else WITH_CLIENT_METRICS
    assert said == {key: versions for key, versions in AGREED.items() if key not in without}
