"""The table of APIs: every handler module is well formed, and the node says what is agreed."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

from penstock.kafka import handlers
from penstock.kafka.registry import load_apis
from penstock.protocol.api_keys import ApiKey
from tests.live_node import running_node

AGREED = {
    ApiKey.PRODUCE: (0, 13),  # 0 to 2 are refused: librdkafka looks at the lower bound
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
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


def test_the_node_advertises_the_agreed_versions(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        client = node.connect()
        software = {"client_software_name": "test", "client_software_version": "1"}
        answer = client.ask(ApiKey.API_VERSIONS, 3, software)
        client.close()
    said = {ApiKey(one.api_key): (one.min_version, one.max_version) for one in answer.api_keys}
    assert said == AGREED
