import socket
import subprocess
import sys

import pytest

from penstock.base.errors import ConfigError
from penstock.node.settings.settings import load_settings
from penstock.node.settings.sources import SettingsTree, read_environment, read_overrides


def load(tmp_path, text="", environment=None, overrides=()):
    path = tmp_path / "node.toml"
    path.write_text(text)
    return load_settings(path, environment=environment or {}, overrides=overrides)


def refusal(tmp_path, *arguments, **named):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, *arguments, **named)
    (message,) = str(raised.value).splitlines()
    return message.replace(str(tmp_path), "")


def test_defaults_need_no_source_at_all():
    settings = load_settings(None, environment={})
    assert settings.node.port == 9092
    assert settings.broker.auto_create_topics is False


def test_environment_wins_over_the_file_and_a_flag_over_both(tmp_path):
    text = "[node]\nport = 1\nmetrics_port = 11\nbroker_id = 21\n"
    environment = {"PENSTOCK__NODE__PORT": "2", "PENSTOCK__NODE__METRICS_PORT": "12", "HOME": "/"}
    node = load(tmp_path, text, environment, ["node.port=3"]).node
    assert (node.port, node.metrics_port, node.broker_id) == (3, 12, 21)


def test_relative_data_directories_start_at_the_settings_file(tmp_path):
    text = '[node]\ndata_directories = ["one", "/two"]\n'
    assert load(tmp_path, text).node.data_directories == (str(tmp_path / "one"), "/two")


def test_further_listeners_are_told_as_advertised_or_as_bound(tmp_path):
    listeners = "node.listeners=in://[fd00::1]:9095,out://0.0.0.0:9096,all://0.0.0.0:9097"
    told = "node.advertised_listeners=out://broker.example:443"
    node = load(tmp_path, overrides=[listeners, told]).node
    assert [str(listener) for listener in node.told_listeners()] == [
        "in://[fd00::1]:9095",
        "out://broker.example:443",
        f"all://{socket.gethostname()}:9097",
    ]
    assert [listener.host for listener in node.named_listeners()] == [
        "fd00::1",
        "0.0.0.0",
        "0.0.0.0",
    ]


def test_the_port_for_remoting_clients_is_one_more_listener(tmp_path):
    given = load(tmp_path)
    assert given.bound_listeners() == given.told_listeners() == ()
    settings = ["remoting.port=9876", "remoting.host=0.0.0.0", "node.listeners=in://h:9095"]
    given = load(tmp_path, overrides=settings)
    assert [str(one) for one in given.bound_listeners()] == [
        "in://h:9095",
        "remoting://0.0.0.0:9876",
    ]
    assert str(given.told_listeners()[1]) == f"remoting://{socket.gethostname()}:9876"
    told = ["remoting.advertised_host=10.0.0.1", "remoting.advertised_port=9000"]
    given = load(tmp_path, overrides=[*settings, *told])
    assert str(given.told_listeners()[1]) == "remoting://10.0.0.1:9000"


def test_a_list_can_be_given_as_text_with_commas(tmp_path):
    node = load(tmp_path, overrides=["node.data_directories=/a, /b"]).node
    assert node.data_directories == ("/a", "/b")


RULE = "RULE:^CN=(.*?),.*$/$1/"


@pytest.mark.parametrize("text", [f'["E.x={RULE}", "F.y=1"]', f" ['E.x={RULE}',\n'F.y=1',] "])
def test_a_list_whose_values_have_commas_is_a_toml_list(text):
    tree = SettingsTree({"security": {"listeners": True, "rules": False}})
    read_overrides(tree, [f"security.listeners={text}", f"security.rules=['{RULE}']"])
    assert tree.values["security"] == {
        "listeners": [f"E.x={RULE}", "F.y=1"],
        "rules": f"['{RULE}']",
    }


@pytest.mark.parametrize("text", ["['a', b]", "['a'", '["a"] ["b"]', "['a']\nb = 1"])
def test_what_is_no_toml_list_is_told_with_its_source(text):
    tree = SettingsTree({"security": {"listeners": True}})
    with pytest.raises(ConfigError, match="variable PENSTOCK__SECURITY__LISTENERS: not a valid"):
        read_environment(tree, {"PENSTOCK__SECURITY__LISTENERS": text})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[node]\nprot = 1", "/node.toml: unknown setting node.prot; did you mean node.port?"),
        (
            '[log]\ndirectories = ["/d"]',
            "/node.toml: unknown setting log.directories; did you mean node.data_directories?",
        ),
        ("[nod]\nport = 1", "/node.toml: unknown section nod; did you mean node?"),
        ("port = 1", "/node.toml: port stands outside a section: write [section] above"),
        (
            "[node]\nport = 0",
            "/node.toml: node.port: input should be greater than or equal to 1 (it is 0)",
        ),
        (
            "[node]\nport = 9092\nmetrics_port = 9092",
            "node.port and node.metrics_port are the same: change one of them",
        ),
        (
            '[node]\nlisteners = ["inside:9095"]',
            "node.listeners: 'inside:9095' is no listener: write NAME://host:port, as in"
            " INTERNAL://10.0.0.1:9095",
        ),
        (
            '[node]\nlisteners = ["a://h:9095", "a://h:9096"]',
            "node.listeners names a listener twice: give each a name of its own",
        ),
        (
            '[node]\nlisteners = ["kafka://h:9095"]',
            "node.listeners: kafka is the listener of node.host and node.port: give the others"
            " names of their own",
        ),
        (
            '[node]\nlisteners = ["a://h:9092"]',
            "node.listeners opens a port twice: give each listener its own",
        ),
        (
            '[node]\nadvertised_listeners = ["a://h:9095"]',
            "node.advertised_listeners names a, which node.listeners does not: add a://host:port"
            " there",
        ),
        (
            "[remoting]\nport = 9092",
            "remoting.port is that of another listener: give it its own",
        ),
        (
            '[node]\nlisteners = ["remoting://h:9095"]\n[remoting]\nport = 9876',
            "node.listeners: remoting is the listener of remoting.port: give the other one another"
            " name",
        ),
        (
            '[security]\nlistener_security_protocol_map = ["remoting:SASL_PLAINTEXT"]\n'
            "[remoting]\nport = 9876",
            "listener remoting is SASL_PLAINTEXT: give security.remoting_access_keys_file",
        ),
        (
            '[security]\nlistener_security_protocol_map = ["grpc:SASL_SSL"]\n'
            'ssl_certificate_file = "c"\nssl_key_file = "k"\n[grpc]\nport = 8081',
            "listener grpc is SASL_SSL: give security.remoting_access_keys_file",
        ),
        (
            '[security]\nlistener_security_protocol_map = ["grpc:SSL"]\n[grpc]\nport = 8081',
            "listener grpc is SSL: give security.ssl_certificate_file and security.ssl_key_file",
        ),
        (
            '[security]\nlisteners = ["grpc.connections_max_reauth_ms=1"]\n[grpc]\nport = 8081',
            "security.listeners: 'grpc.connections_max_reauth_ms=1' has no effect: clients of"
            " grpc sign by the access keys of security.remoting_access_keys_file",
        ),
        (
            '[security]\nlisteners = ["remoting.sasl_enabled_mechanisms=PLAIN"]\n'
            "[remoting]\nport = 9876",
            "security.listeners: 'remoting.sasl_enabled_mechanisms=PLAIN' has no effect: clients of"
            " remoting sign by the access keys of security.remoting_access_keys_file",
        ),
        (
            '[security]\nopen_listeners = ["remoting"]',
            "security names listener remoting, which is not there: the node has kafka, metrics",
        ),
    ],
)
def test_a_wrong_file_is_one_line_with_file_and_key(tmp_path, text, message):
    assert refusal(tmp_path, text) == message


def test_a_setting_like_no_other_is_answered_with_those_of_its_section(tmp_path):
    told = refusal(tmp_path, "[node]\nxyz = 1")
    assert told.startswith("/node.toml: unknown setting node.xyz; there are: node.broker_id, ")


def test_a_section_like_no_other_is_answered_with_all_of_them(tmp_path):
    told = refusal(tmp_path, '[etcd]\nendpoints = ["http://etcd:2379"]')
    assert told.startswith("/node.toml: unknown section etcd; there are: node, cluster, ")


def test_a_file_that_is_not_toml_is_one_line(tmp_path):
    assert refusal(tmp_path, "[node").startswith("/node.toml: not valid TOML: ")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="no such settings file"):
        load_settings(tmp_path / "absent.toml", environment={})


def test_a_wrong_variable_is_named(tmp_path):
    message = refusal(tmp_path, environment={"PENSTOCK__NODE__PORT": "many"})
    assert message.startswith("environment variable PENSTOCK__NODE__PORT: node.port: ")
    message = refusal(tmp_path, environment={"PENSTOCK__PORT": "1"})
    assert message == "environment variable PENSTOCK__PORT: write PENSTOCK__SECTION__KEY"


@pytest.mark.parametrize("override", ["port=1", "node.port", "", "node.=1", ".port=1"])
def test_an_override_must_name_section_key_and_value(tmp_path, override):
    assert refusal(tmp_path, overrides=[override]).endswith("write --set section.key=value")


def test_python_that_drops_assertions_is_refused():
    script = "from penstock.node.settings.settings import check_interpreter; check_interpreter()"
    done = subprocess.run(
        [sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False
    )
    assert "ConfigError: Python runs with -O" in done.stderr
