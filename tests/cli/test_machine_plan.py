"""What `penstock serve` makes of one settings file, and what it refuses before anything starts."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.ports import free_port
from penstock.base.errors import ConfigError
from penstock.cli.launch.node_files import settings_toml
from penstock.cli.machine.plan import (
    MachinePlan,
    Wishes,
    check_machine_is_free,
    make_directories,
    nodes_left_out,
    plan_machine,
    voters_at_other_ports,
)
from penstock.cli.serve import _count
from penstock.net.memory_share import machine_bytes, share_of

Settings = dict[str, dict[str, object]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A machine in the middle of a cluster: its second node has a vote."""
    (tmp_path / "data").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    return {
        "node": {"broker_id": 11, "cluster_id": "here", "data_directories": ["data"]},
        "cluster": {
            "voters": ["1@10.0.0.1:9093", "12@10.0.0.2:9193"],
            "controller_port": 9093,
            "ha_port": 9094,
            "secret_file": "secret",
        },
    }


@pytest.fixture
def plan(tmp_path: Path, settings: Settings) -> Callable[..., MachinePlan]:
    """Write the settings and plan as many nodes."""

    def plan(nodes: int = 2, environment: dict[str, str] | None = None, **more: object):
        path = tmp_path / "machine.toml"
        path.write_text(settings_toml(settings))
        wishes = Wishes(config=path, nodes=nodes, **more)  # type: ignore[arg-type]
        return plan_machine(wishes, environment or {})

    return plan


Plan = Callable[..., MachinePlan]


def test_ids_are_in_a_row_and_ports_of_a_kind_a_hundred_apart(plan: Plan) -> None:
    third = plan(3).nodes[2].settings
    assert third.node.broker_id == 13
    assert (third.node.port, third.node.metrics_port) == (9292, 9604)
    assert (third.cluster.controller_port, third.cluster.ha_port) == (9293, 9294)
    assert third.cluster.voters == ("1@10.0.0.1:9093", "12@10.0.0.2:9193")
    assert third.node.advertised_port == 0
    assert third.remoting.port == 0


def test_ports_for_remoting_clients_are_a_hundred_apart(plan: Plan, settings: Settings) -> None:
    settings["remoting"] = {"port": 9876, "advertised_port": 9000}
    third = plan(3).nodes[2].settings
    assert (third.remoting.port, third.remoting.advertised_port) == (10076, 9200)


def test_listeners_and_what_others_are_told_move_along(plan: Plan, settings: Settings) -> None:
    settings["node"] |= {
        "advertised_port": 19092,
        "listeners": ["in://127.0.0.1:9095", "out://127.0.0.1:9096"],
        "advertised_listeners": ["out://log.example.net:19096"],
    }
    node = plan().nodes[1].settings.node
    assert node.advertised_port == 19192
    assert node.listeners == ("in://127.0.0.1:9195", "out://127.0.0.1:9196")
    assert node.advertised_listeners == ("out://log.example.net:19196",)
    assert [listener.port for listener in node.told_listeners()] == [9195, 19196]


def test_each_node_has_its_directories_below_those_of_the_file(plan: Plan, tmp_path: Path) -> None:
    made = plan()
    second = tmp_path / "data" / "node-12"
    assert made.nodes[1].settings.node.data_directories == (str(second),)
    assert not second.exists()
    make_directories(made)
    assert second.is_dir()


def test_shares_of_the_machine_are_divided(plan: Plan, settings: Settings) -> None:
    alone, four = plan(1).nodes[0].settings, plan(4).nodes[3].settings
    assert alone.net.unfinished_bytes_max == share_of(machine_bytes())
    assert four.net.unfinished_bytes_max == share_of(machine_bytes(), nodes=4)
    assert four.broker.slave_read_memory_percent == 10
    settings["net"] = {"unfinished_bytes_max": 8 << 20}
    assert plan(4).nodes[3].settings.net.unfinished_bytes_max == 8 << 20


def test_the_environment_and_the_command_line_count_for_all_nodes(plan: Plan) -> None:
    made = plan(environment={"PENSTOCK__NODE__PORT": "7000"}, overrides=("node.rack=r1",))
    assert [node.settings.node.port for node in made.nodes] == [7000, 7100]
    assert {node.settings.node.rack for node in made.nodes} == {"r1"}
    assert made.nodes[1].overrides[0] == "node.rack=r1"


def test_nodes_are_pinned_where_that_is_wished(plan: Plan) -> None:
    assert [node.core for node in plan(cores=(4, 6)).nodes] == [4, 6]
    assert [node.core for node in plan().nodes] == [-1, -1]


def test_the_page_about_all_nodes_is_behind_that_of_the_first(plan: Plan) -> None:
    assert plan().port == 9405
    assert plan(metrics_port=9300).port == 9300


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("node", {"port": 65500}, r"^node 12: --set node.port: node.port: .*65535 .*'65600'"),
        ("node", {"broker_id": 2**31 - 1}, "2 nodes need ids up to 2147483648: lower it"),
        ("node", {"metrics_port": 0}, "^node.metrics_port is 0"),
        ("node", {"cluster_id": ""}, "node.cluster_id is not"),
        ("node", {"data_directories": ["absent"]}, "absent does not exist: make it"),
        ("cluster", {"voters": []}, "voters is empty: 2 nodes are a cluster"),
        ("cluster", {"ha_port": 0}, "^cluster.ha_port is 0"),
        ("cluster", {"controller_port": 0}, "controller_port is 0 and node 12 is one"),
        (
            "cluster",
            {"ha_port": 9192},
            "^node 12: node.port is 9192, and so is that of node 11, cluster.ha_port",
        ),
        ("cluster", {"secret_file": "none"}, "none does not exist: make it once"),
    ],
)
def test_what_can_not_work_is_one_line(
    plan: Plan, settings: Settings, section: str, values: dict[str, object], message: str
) -> None:
    settings[section] |= values
    with pytest.raises(ConfigError) as refused:
        plan()
    assert re.search(message, str(refused.value)), refused.value
    assert "\n" not in str(refused.value)


def test_a_node_by_itself_needs_no_controllers(plan: Plan, settings: Settings) -> None:
    del settings["cluster"]
    assert len(plan(1).nodes) == 1


def test_the_data_of_a_node_that_ran_by_itself_is_not_put_aside(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "data" / "identity.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"ran by itself: move what is in it to .*/data/node-11$"):
        plan()


def test_a_port_in_use_is_told_with_the_node_that_wants_it(plan: Plan, settings: Settings) -> None:
    first = free_port(105)
    settings["node"] |= {"port": first, "metrics_port": first + 3}
    settings["cluster"] |= {"controller_port": first + 1, "ha_port": first + 2}
    check_machine_is_free(plan())
    with (
        socket.create_server(("127.0.0.1", first + 102)),
        pytest.raises(
            ConfigError,
            match=rf"^node 12: 127.0.0.1:{first + 102} can not be used: Address already in use: "
            r"stop what uses it, or change cluster.ha_port in ",
        ),
    ):
        check_machine_is_free(plan())


def test_a_voter_whose_port_is_not_that_of_its_node_is_pointed_out(
    plan: Plan, settings: Settings
) -> None:
    assert list(voters_at_other_ports(plan())) == []
    settings["cluster"]["voters"] = ["12@10.0.0.2:9093"]
    (warning,) = voters_at_other_ports(plan())
    assert warning.startswith("cluster.voters has controller 12 at port 9093, and node 12 listens")


def test_a_node_that_has_data_and_is_not_started_is_pointed_out(plan: Plan) -> None:
    make_directories(plan(3))
    assert list(nodes_left_out(plan(3))) == []
    (warning,) = nodes_left_out(plan(2))
    assert warning.endswith(
        "/node-13 is there, and node 13 is not started: with 2 nodes the ids end at 12"
    )


def test_auto_is_a_node_for_each_core() -> None:
    assert _count("auto", 6) == 6
    assert _count("2", 6) == 2


@pytest.mark.parametrize("text", ["0", "65", "-1", "many", "٣"])
def test_a_number_of_nodes_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="choose auto, or 1 to 64"):
        _count(text, 2)
