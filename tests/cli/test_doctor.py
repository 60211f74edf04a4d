"""`penstock doctor` says what a node would stumble over, and changes nothing."""

import json
import os
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from penstock.cli import doctor
from penstock.cli.program import guarded
from penstock.node.identity import LOCK_NAME
from penstock.node.pages import build_info
from penstock.node.settings.cluster_config import ClusterConfig
from penstock.node.settings.settings import NodeSettings
from tests.access.certificates import Authority

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def settings_file(tmp_path):
    """Settings of a node of a cluster on free ports, with a secret of its own."""
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    (tmp_path / "secret").chmod(0o600)
    ports = []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ports.append(server.getsockname()[1])
    path = tmp_path / "node.toml"
    path.write_text(
        f'[node]\nport = {ports[0]}\nmetrics_port = 0\ndata_directories = ["{tmp_path}/data"]\n'
        f'cluster_id = "a-cluster-of-this-test"\n'
        f'[cluster]\nvoters = ["1@127.0.0.1:{ports[1]}"]\ncontroller_port = {ports[1]}\n'
        f'ha_port = {ports[2]}\nsecret_file = "{tmp_path}/secret"\n'
    )
    return path


def examined(capsys, settings_file):
    code = guarded(["doctor", "--config", str(settings_file), "-o", "json"])
    rows = json.loads(capsys.readouterr().out)
    return code, {row["check"]: row for row in rows if row["state"] != "ok"}, rows


def test_a_machine_that_has_everything_is_told_so(capsys, settings_file):
    code, _, rows = examined(capsys, settings_file)
    assert code == 0
    states = {row["check"]: row["state"] for row in rows}
    assert states["disk"] == states["secret"] == states["port"] == "ok"
    assert [row["check"] for row in rows].count("port") == 3
    assert "wrong" not in states.values()
    assert not list((settings_file.parent / "data").iterdir())


def test_a_disk_that_is_too_small_is_wrong_and_says_what_is_needed(
    capsys, settings_file, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, 50_000_000))
    code, found, _ = examined(capsys, settings_file)
    assert code == 1
    assert found["disk"]["state"] == "wrong"
    assert "has 50 MB free; a new node needs 109 MB" in found["disk"]["finding"]


def test_a_port_that_is_taken_is_named(capsys, settings_file):
    port = int(settings_file.read_text().split("port = ")[1].split("\n")[0])
    with socket.create_server(("127.0.0.1", port)):
        code, found, _ = examined(capsys, settings_file)
    assert (code, found["port"]["state"]) == (1, "wrong")
    assert found["port"]["finding"] == (
        f"node.port 127.0.0.1:{port} is taken by another program: stop it, or choose another port"
    )


def test_a_port_that_another_user_s_node_may_have_is_to_be_looked_at(
    capsys, settings_file, monkeypatch
):
    port = int(settings_file.read_text().split("port = ")[1].split("\n")[0])
    monkeypatch.setattr(doctor, "owner_of", lambda _: doctor.NOT_TOLD)
    with socket.create_server(("127.0.0.1", port)):
        code, found, _ = examined(capsys, settings_file)
    assert (code, found["port"]["state"]) == (0, "look")


def test_who_runs_on_a_directory_is_not_told_where_its_lock_can_not_be_read(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    assert doctor.owner_of(tmp_path) is None
    monkeypatch.setattr(Path, "read_text", refused)
    assert doctor.owner_of(tmp_path) == doctor.NOT_TOLD


def test_a_data_directory_that_is_not_there_is_wrong(capsys, settings_file):
    (settings_file.parent / "data").rmdir()
    code, found, _ = examined(capsys, settings_file)
    assert (code, found["disk"]["state"]) == (1, "wrong")
    assert "/data does not exist: make it (mkdir -p " in found["disk"]["finding"]


def test_a_cluster_without_a_name_is_wrong(capsys, settings_file):
    lines = settings_file.read_text().splitlines(keepends=True)
    settings_file.write_text("".join(line for line in lines if not line.startswith("cluster_id")))
    code, found, _ = examined(capsys, settings_file)
    assert (code, found["cluster"]["state"]) == (1, "wrong")
    assert found["cluster"]["finding"].startswith("cluster.voters is given and node.cluster_id")


@pytest.mark.parametrize("place", ["data", "data/node-1"])
def test_the_ports_of_a_node_that_runs_are_fine(capsys, settings_file, place):
    port = int(settings_file.read_text().split("port = ")[1].split("\n")[0])
    lock = settings_file.parent / place / LOCK_NAME
    lock.parent.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", port)), lock.open("w") as held:
        held.write(f"{os.getpid()}\n")
        held.flush()
        _, _, rows = examined(capsys, settings_file)
    told = f"node.port 127.0.0.1:{port}: its node runs, process {os.getpid()}"
    assert {"check": "port", "state": "ok", "finding": told} in rows


@pytest.mark.parametrize(("mode", "state", "code"), [(0o640, "look", 0), (0o644, "wrong", 1)])
def test_a_secret_that_others_can_read_is_told(capsys, settings_file, mode, state, code):
    (settings_file.parent / "secret").chmod(mode)
    assert examined(capsys, settings_file)[0] == code
    assert examined(capsys, settings_file)[1]["secret"]["state"] == state


def test_a_name_that_does_not_resolve_is_told(capsys, settings_file, monkeypatch):
    def unknown(*_):
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    code, found, _ = examined(capsys, settings_file)
    assert (code, found["host name"]["state"]) == (1, "wrong")


def test_an_interpreted_build_says_what_it_costs(monkeypatch):
    monkeypatch.setattr(build_info, "interpreted", lambda: list(build_info.TWINS))
    found = doctor.build()
    assert found.state is doctor.State.LOOK
    assert found.finding.endswith(build_info.COST)


def test_the_ports_of_all_nodes_that_are_to_start_are_looked_at(capsys, tmp_path):
    guarded(["doctor", "--data", str(tmp_path / "none"), "--nodes", "3", "-o", "json"])
    rows = json.loads(capsys.readouterr().out)
    told = {row["finding"].split()[1].split(":")[1] for row in rows if row["check"] == "port"}
    firsts = (9092, 9404, 9192, 9292)
    assert told == {str(first + number) for first in firsts for number in range(3)}
    assert [row["finding"] for row in rows if row["check"] == "secret"] == [
        "none yet: penstock up makes one for its owner alone"
    ]


def test_what_several_nodes_share_is_told_once(capsys, settings_file):
    (settings_file.parent / "secret").chmod(0o644)
    for number in (1, 2):
        directory = settings_file.parent / f"node-{number}"
        directory.mkdir()
        (directory / "node.toml").write_text(settings_file.read_text())
    assert guarded(["doctor", "--data", str(settings_file.parent), "-o", "json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows if row["check"] == "secret"] == ["wrong"]


@pytest.mark.parametrize(
    ("host", "more", "state", "said"),
    [
        ("127.0.0.1", "", "ok", "this machine alone reaches the node"),
        ("192.0.2.1", "", "wrong", "permit it with security.open_listeners=kafka"),
        (
            "192.0.2.1",
            '[security]\nopen_listeners = ["kafka"]\n',
            "look",
            "everybody is let in at kafka (192.0.2.1:",
        ),
        ("192.0.2.1", "CLOSED", "look", "may do everything: access.authorizer is off"),
        (
            "192.0.2.1",
            'CLOSED\n[access]\nauthorizer = "acl"\nsuper_users = ["User:admin"]\n',
            "ok",
            "prove who they are, and may do what rules permit",
        ),
    ],
)
def test_who_may_come_in_from_other_machines_is_said(
    capsys, settings_file, host, more, state, said
):
    closed = (
        '[security]\nlistener_security_protocol_map = ["kafka:SASL_SSL"]\n'
        'ssl_certificate_file = "c"\nssl_key_file = "k"\n'
    )
    text = settings_file.read_text().replace("[node]\n", f'[node]\nhost = "{host}"\n')
    settings_file.write_text(text + more.replace("CLOSED", closed))
    _, _, rows = examined(capsys, settings_file)
    (row,) = [row for row in rows if row["check"] == "clients"]
    assert row["state"] == state
    assert said in row["finding"]


@pytest.mark.parametrize(
    ("host", "more", "state", "said"),
    [
        ("127.0.0.1", "", "ok", "this machine alone reads metrics"),
        ("192.0.2.1", "", "look", "security.listener_security_protocol_map=metrics:SSL"),
        ("192.0.2.1", "TLS", "ok", "other machines read /health and /ready alone"),
        ("192.0.2.1", "TLS ASKS", "ok", "other machines need a certificate to read metrics"),
        ("192.0.2.1", "TLS OPEN", "look", "security.open_listeners permits it"),
        ("192.0.2.1", "BROKEN", "wrong", "can not be used together"),
        ("127.0.0.1", "TLS TAKEN", "look", "does not answer with this certificate"),
    ],
)
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_who_may_read_the_pages_is_said(capsys, settings_file, host, more, state, said):
    authority = Authority(settings_file.parent / "ca")
    certificate, key = authority.issue("node", "/CN=node")
    texts = {
        "TLS": f'ssl_certificate_file = "{certificate}"\nssl_key_file = "{key}"\n',
        "BROKEN": f'ssl_certificate_file = "{key}"\nssl_key_file = "{key}"\n',
        "ASKS": f'ssl_authority_file = "{authority.file}"\nssl_client_auth = "requested"\n',
        "OPEN": 'open_listeners = ["metrics"]\n',
        "TAKEN": "",
    }
    security = "".join(texts[word] for word in more.split())
    if security:
        security = f'[security]\nlistener_security_protocol_map = ["metrics:SSL"]\n{security}'
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if "TAKEN" not in more:
            server.close()
        own = f'metrics_host = "{host}"\nmetrics_port = {port}\n'
        text = settings_file.read_text().replace("metrics_port = 0\n", own)
        settings_file.write_text(text + security)
        _, _, rows = examined(capsys, settings_file)
    (row,) = [row for row in rows if row["check"] == "pages"]
    assert row["state"] == state
    assert said in row["finding"]


def test_a_secret_that_is_being_replaced_is_told(tmp_path):
    secret = tmp_path / "secret"
    settings = NodeSettings(cluster=ClusterConfig(secret_file=str(secret)))
    for path in (secret, tmp_path / "secret.old"):
        path.write_text("a secret of the tests")
        path.chmod(0o600)
    found = doctor.secret(settings, nodes=1)
    assert found.state is doctor.State.LOOK
    assert "2 secrets are accepted" in found.finding
    (tmp_path / "secret.old").unlink()
    assert doctor.secret(settings, nodes=1).state is doctor.State.OK


@pytest.mark.parametrize(
    ("net", "security", "files", "state", "said"),
    [
        ("", "", 1 << 20, "ok", "10000 at most, none kept"),
        ("connections_max = 600\n", "", 1_056, "ok", "600 at most, none kept"),
        ("connections_max = 601\n", "", 1_056, "look", "ulimit -Hn 1057"),
        ('protected_listener = "kafka"\n', "", 1 << 20, "look", "asks nobody who they are"),
        ('protected_listener = "kafka"\n', "SASL", 1 << 20, "ok", "some are kept for kafka"),
    ],
)
def test_bounds_of_connections_are_looked_at(
    capsys, settings_file, monkeypatch, net, security, files, state, said
):
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    users = settings_file.parent / "users"
    users.write_text("alice:pa\n")
    users.chmod(0o600)
    sasl = (
        '[security]\nlistener_security_protocol_map = ["kafka:SASL_PLAINTEXT"]\n'
        'sasl_enabled_mechanisms = ["PLAIN"]\nsasl_plain_without_tls = true\n'
        f'sasl_plain_users_file = "{users}"\n'
    )
    more = f"[net]\n{net}" + (sasl if security else "")
    settings_file.write_text(settings_file.read_text() + more)
    _, _, rows = examined(capsys, settings_file)
    found = [row for row in rows if row["check"] == "connections"]
    assert any(row["state"] == state and said in row["finding"] for row in found)
    assert (state == "ok") is all(row["state"] == "ok" for row in found)
