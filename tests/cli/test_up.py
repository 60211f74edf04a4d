"""The launcher and the commands against real nodes."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import closing

import pytest

from harness.node import answers
from harness.ports import UP_PORTS, free_port
from harness.waiting import signal_until_it_ends, wait_until
from penstock.cli.up import TAKES_TLS, _rocketmq
from penstock.remoting.wire.codes import RequestCode
from tests.cli.launched import (
    PENSTOCK,
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    is_alive,
    launched,
    penstock,
)
from tests.grpc.test_takes_tls import SETTINGS_FRAME, told_over_tls
from tests.lying import fill_around_a_lie
from tests.remoting.served import Remote

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with launched(tmp_path_factory.mktemp("up") / "data") as up:
        yield up


def test_the_ready_line_is_the_only_one_on_stdout_and_sigterm_ends_cleanly(tmp_path):
    with launched(tmp_path / "data") as up:
        assert up.ready_line == f"ready bootstrap=127.0.0.1:{up.port}\n"
        pid = up.pid()
        assert up.stop() == (0, "")
        assert up.told() == []
        assert not is_alive(pid)
        assert not (tmp_path / "data" / "node-1" / "pid").exists()


def test_a_port_for_rocketmq_s_clients_is_told(tmp_path):
    port, grpc = free_port(), free_port()
    where = "--rocketmq", "--set", f"remoting.port={port}", "--set", f"grpc.port={grpc}"
    with launched(tmp_path / "data", *where) as up:
        told = f"rocketmq=127.0.0.1:{port} grpc=127.0.0.1:{grpc}"
        assert up.ready_line == f"ready bootstrap=127.0.0.1:{up.port} {told}\n"
        with closing(Remote(f"127.0.0.1:{port}")) as remote:
            cluster = remote.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {})
            assert b"set-1" in bytes(cluster.body)
        assert told_over_tls(f"127.0.0.1:{grpc}", ["h2"])[3] == SETTINGS_FRAME


@pytest.mark.parametrize(
    ("given", "secure", "takes"),
    [
        ((), False, True),
        (("grpc.port=8082",), False, True),
        ((), True, False),
        (("security.listener_security_protocol_map=grpc:SSL",), False, False),
        (("grpc.port=0",), False, False),
    ],
)
def test_the_open_port_of_grpc_clients_takes_tls(given, secure, takes):
    assert (TAKES_TLS in _rocketmq(given, secure=secure)) is takes


def test_sigint_ends_cleanly_as_well(tmp_path):
    with launched(tmp_path / "data") as up:
        assert up.stop(signal.SIGINT) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_more_signal_changes_nothing_when_it_ends(tmp_path, number):
    with launched(tmp_path / "data") as up:
        assert signal_until_it_ends(up.process, number, STOP_SECONDS_MAX) == 0, up.errors()


def test_a_killed_node_is_started_again_with_what_it_had(tmp_path):
    with launched(tmp_path / "data") as up:
        up.run("topic", "create", "t")
        up.run("produce", "t", stdin=b"one\n")
        killed = up.pid()
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: up.pid() != killed, START_SECONDS_MAX)
        assert wait_until(lambda: answers(up.port), START_SECONDS_MAX)
        up.run("produce", "t", stdin=b"two\n")
        assert up.run("consume", "t") == "one\ntwo\n"
        assert "penstock: node 1 was ended by SIGKILL; starting it again\n" in up.errors()
        assert up.stop() == (0, "")


def test_without_restart_a_killed_node_ends_the_launcher(tmp_path):
    with launched(tmp_path / "data", "--no-restart") as up:
        os.kill(up.pid(), signal.SIGKILL)
        assert up.process.wait(STOP_SECONDS_MAX) == 1
        assert up.told() == ["penstock: node 1 was ended by SIGKILL; its log says why"]


def test_a_killed_launcher_leaves_no_node_behind(tmp_path):
    with launched(tmp_path / "data") as up:
        pid = up.pid()
        up.process.kill()
        up.process.wait(STOP_SECONDS_MAX)
        assert wait_until(lambda: not is_alive(pid), START_SECONDS_MAX)
    with launched(tmp_path / "data", port=up.port) as again:
        assert again.stop() == (0, "")


def test_data_survives_a_restart_of_the_launcher(tmp_path):
    with launched(tmp_path / "data") as up:
        up.run("topic", "create", "t")
        up.run("produce", "t", stdin=b"kept\n")
    with launched(tmp_path / "data") as up:
        assert up.run("consume", "t") == "kept\n"


def refused(done, message):
    assert done.returncode == 2, done.stderr
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert re.search(message, line), line


def test_a_node_that_never_answers_is_given_up(tmp_path):
    # A file where the log's directory should be: every start fails in the same way.
    data = tmp_path / "d" / "node-1" / "data"
    arguments = ("up", "--data", tmp_path / "d", "--port", free_port(), "--metrics-port", 0)
    with launched(tmp_path / "d") as up:
        assert up.stop() == (0, "")
    for path in (data / "metadata").rglob("*"):
        path.unlink()
    (data / "metadata").rmdir()
    (data / "metadata").write_text("")
    done = penstock(*arguments)
    assert done.returncode in {1, 2}
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) <= 20
    assert lines[-1].startswith("penstock: node 1 ended with exit code ")


def test_the_first_controller_of_a_cluster_founds_no_second_group_after_its_disk_was_lost(tmp_path):
    with launched(tmp_path / "d", "--nodes", "2") as up:
        assert up.stop() == (0, "")
    shutil.rmtree(tmp_path / "d" / "node-1" / "data")
    done = penstock("up", "--data", tmp_path / "d", "--nodes", 2, "--port", up.port)
    refused(done, "founded this cluster is gone .*node-1/data/metadata.*: put a disk back")


def test_sigterm_while_the_node_starts_ends_cleanly(tmp_path):
    for delay in (0.3, 0.6, 0.9):
        process = subprocess.Popen(
            [
                *(*PENSTOCK, "up", "--data", str(tmp_path / "d")),
                *("--port", str(free_port()), "--metrics-port", "0"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay)
        process.terminate()
        _, errors = process.communicate(timeout=STOP_SECONDS_MAX)
        told = [line for line in errors.splitlines() if b"held the loop" not in line]
        assert (process.returncode, told) in [(0, []), (-signal.SIGTERM, [])]


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = penstock("up", "--data", tmp_path / "d", "--port", port, "--metrics-port", 0)
    refused(done, rf"^penstock: 127.0.0.1:{port} can not be used: Address already in use: stop")


def test_a_start_that_was_refused_leaves_the_number_of_nodes_open(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        start = ("up", "--data", tmp_path, "--port", port, "--metrics-port", 0, "--nodes")
        refused(penstock(*start, 3), "Address already in use")
        refused(penstock(*start, 2), "Address already in use")


def test_a_secret_that_others_can_read_is_one_line(tmp_path):
    (tmp_path / "cluster.secret").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "cluster.secret").chmod(0o644)
    where = ("--data", tmp_path, "--port", free_port(UP_PORTS), "--metrics-port", 0)
    refused(penstock("up", "--nodes", 3, *where), "everybody on this machine: chmod 600 ")


def test_a_second_launcher_on_the_same_directory_is_one_line(cluster):
    done = penstock("up", "--data", cluster.directory, "--port", free_port(), "--metrics-port", 0)
    refused(done, "is in use by another penstock up: stop it, or name another place with --data")


def test_a_second_node_on_the_same_directory_is_one_line(cluster, tmp_path):
    settings = (cluster.directory / "node-1" / "node.toml").read_text()
    path = tmp_path / "node.toml"
    path.write_text(re.sub(r"(?m)^port = .*$", f"port = {free_port()}", settings))
    done = penstock("node", "--config", path)
    refused(done, rf"in use by another node \(process {cluster.pid()}\): stop it, or give this")


def test_a_node_whose_port_is_in_use_is_one_line(cluster, tmp_path):
    (tmp_path / "data").mkdir()
    path = tmp_path / "node.toml"
    path.write_text(f"[node]\nport = {cluster.port}\nmetrics_port = 0\n")
    done = penstock("node", "--config", path)
    assert done.returncode == 2
    last = done.stderr.decode().splitlines()[-1]
    assert f"127.0.0.1:{cluster.port}" in last
    assert "in use" in last
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("log.segment_byte=1", "--set log.segment_byte: unknown setting .* did you mean log.seg"),
        ("log.segment_bytes=1", "--set log.segment_bytes: .* greater than or equal to 65536"),
        ("node.broker_id=7", "penstock up numbers the nodes itself: leave node.broker_id out"),
    ],
)
def test_a_wrong_setting_is_one_line(tmp_path, override, message):
    done = penstock("up", "--data", tmp_path / "d", "--port", free_port(), "--set", override)
    refused(done, message)


def test_a_data_path_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = penstock("up", "--data", tmp_path / "file", "--port", free_port())
    refused(done, r"file is no directory \(see penstock up --help\)")


def test_python_without_assertions_is_refused(tmp_path):
    (tmp_path / "node.toml").write_text("")
    done = penstock("node", "--config", tmp_path / "node.toml", environment={"PYTHONOPTIMIZE": "1"})
    refused(done, "Python runs with -O or PYTHONOPTIMIZE, which removes safety checks: unset it")


def test_topics_are_created_listed_altered_described_and_deleted(cluster):
    cluster.run("topic", "create", "life", "-p", 2, "-c", "retention.ms=60000")
    names = [row["topic"] for row in json.loads(cluster.run("topic", "list", "-o", "json"))]
    assert "life" in names
    cluster.run("topic", "alter", "life", "-p", 3, "-c", "retention.bytes=5")
    described = json.loads(cluster.run("topic", "describe", "life", "-o", "json"))
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2]
    assert described["configs"] == {"retention.ms": "60000", "retention.bytes": "5"}
    cluster.run("topic", "create", "life", "--if-absent")
    code, _, errors = cluster.try_to_run("topic", "delete", "life")
    assert (code, "say --yes" in errors) == (2, True)
    cluster.run("topic", "delete", "life", "--yes")
    assert "life" not in cluster.run("topic", "list")


def failed(cluster, *arguments, stdin=b""):
    code, _, errors = cluster.try_to_run(*arguments, stdin=stdin)
    assert code == 1, errors
    (line,) = errors.splitlines()
    return line


def test_refusals_of_the_broker_are_one_line(cluster):
    cluster.run("topic", "create", "taken")
    assert failed(cluster, "topic", "create", "taken") == (
        "penstock: topic taken already exists (see --if-absent)"
    )
    assert failed(cluster, "topic", "describe", "absent") == (
        "penstock: topic absent does not exist: see penstock topic list, or make it:"
        " penstock topic create absent"
    )
    assert failed(cluster, "produce", "__share_state", stdin=b"x\n") == (
        "penstock: topic __share_state does not exist: it is Penstock's own, and is made when"
        " something first needs it"
    )
    assert failed(cluster, "produce", "a b", stdin=b"x\n") == (
        "penstock: topic a b refused with INVALID_TOPIC_EXCEPTION: a name has ASCII letters,"
        " digits, '.', '_' and '-', and at most 249 of them"
    )
    assert failed(cluster, "audit", "who", "taken") == (
        "penstock: no node has written rows of the audit: set broker.audit=true on each node"
    )
    assert "INVALID_TOPIC" in failed(cluster, "topic", "create", "a/b")
    assert "INVALID_CONFIG" in failed(cluster, "topic", "create", "b", "-c", "no.such=1")
    assert failed(cluster, "consume", "taken", "-p", 7) == (
        "penstock: partition 7 of topic taken does not exist: see penstock topic describe taken"
    )
    assert failed(cluster, "group", "describe", "nobody") == (
        "penstock: group nobody does not exist: see penstock group list"
    )


def test_settings_of_topics_are_set_and_unset(cluster):
    cluster.run("topic", "create", "set")
    cluster.run("config", "set", "topic", "set", "retention.ms=1", "max.message.bytes=2000")
    changed = json.loads(
        cluster.run("config", "describe", "topic", "set", "--changed", "-o", "json")
    )
    assert {row["name"]: row["value"] for row in changed} == {
        "max.message.bytes": "2000",
        "retention.ms": "1",
    }
    cluster.run("config", "unset", "topic", "set", "retention.ms", "max.message.bytes")
    assert (
        json.loads(cluster.run("config", "describe", "topic", "set", "--changed", "-o", "json"))
        == []
    )
    assert "node.broker_id" in cluster.run("config", "describe", "broker", "1")
    told = failed(cluster, "config", "set", "broker", "1", "log.segment_bytes=1")
    assert told.startswith("penstock: configuration of broker 1 refused with INVALID_REQUEST: ")


def test_records_of_all_formats_come_back(cluster, tmp_path):
    cluster.run("topic", "create", "formats")
    (tmp_path / "a.csv").write_text("id,text\n1,one\n")
    (tmp_path / "b.json").write_text('{"id": 2}\n')
    cluster.run("produce", "formats", tmp_path / "a.csv", "--format=csv", "--key-field=id")
    cluster.run("produce", "formats", tmp_path / "b.json", "--format=json", "--key-field=id")
    cluster.run("produce", "formats", "--key-separator=:", stdin=b"3:three\n")
    cluster.run("produce", "formats", "--compression=zstd", stdin=b"\xff\xfe\n")
    lines = cluster.run("consume", "formats", "-o", "json").splitlines()
    records = [json.loads(line) for line in lines]
    assert [(record["offset"], record["key"]) for record in records] == [
        (0, "1"),
        (1, "2"),
        (2, "3"),
        (3, None),
    ]
    assert records[0]["value"] == '{"id": "1", "text": "one"}'
    assert records[3]["value_base64"] == "//4="
    assert cluster.run("consume", "formats", "--from", "1", "-n", "2") == '{"id": 2}\nthree\n'
    assert cluster.run("consume", "formats", "--from", "@0", "-n", "3", "--format=raw") == (
        '{"id": "1", "text": "one"}{"id": 2}three'
    )
    assert cluster.run("consume", "formats", "--from", "9999-01-01") == ""


def test_many_records_over_several_partitions_come_back_once_and_in_order(cluster):
    cluster.run("topic", "create", "many", "-p", 4)
    sent = [f"{number % 7}:{number}" for number in range(50_000)]
    result = cluster.run(
        *("produce", "many", "--key-separator=:", "-o", "json"),
        stdin="\n".join(sent).encode(),
    )
    assert json.loads(result)[0]["records"] == len(sent)
    records = map(json.loads, cluster.run("consume", "many", "-o", "json").splitlines())
    by_key: dict[str, list[int]] = {}
    for record in records:
        by_key.setdefault(record["key"], []).append(int(record["value"]))
    assert by_key == {str(key): list(range(key, 50_000, 7)) for key in range(7)}


def test_a_topic_can_be_truncated(cluster):
    cluster.run("topic", "create", "cut")
    cluster.run("produce", "cut", stdin=b"a\nb\nc\n")
    cut = json.loads(cluster.run("topic", "truncate", "cut", "--before", "2", "-o", "json"))
    assert cut == [{"partition": 0, "start": 2}]
    assert cluster.run("consume", "cut") == "c\n"
    cluster.run("topic", "truncate", "cut", "--before", "end")
    assert cluster.run("consume", "cut") == ""


def test_groups_are_reset_described_and_deleted(cluster):
    cluster.run("topic", "create", "read")
    cluster.run("produce", "read", stdin=b"a\nb\nc\n")
    reset = ("group", "reset", "readers", "--topic", "read", "-o", "json", "--to")
    cluster.run(*reset, "end", "--dry-run")
    assert json.loads(cluster.run(*reset, "1")) == [
        {"topic": "read", "partition": 0, "before": None, "after": 1}
    ]
    described = json.loads(cluster.run("group", "describe", "readers", "-o", "json"))
    assert (described["state"], described["lag"]) == ("Empty", 2)
    assert json.loads(cluster.run(*reset, "beginning"))[0]["before"] == 1
    assert "readers" in cluster.run("group", "list")
    cluster.run("group", "delete", "readers")
    assert "readers" not in cluster.run("group", "list")


def test_a_log_can_be_dumped_and_verified_and_damage_is_found(tmp_path):
    with launched(tmp_path / "data") as up:
        up.run("topic", "create", "t")
        up.run("produce", "t", stdin=b"one\ntwo\n")
        up.run("log", "verify", tmp_path / "data" / "node-1" / "data")
    data = tmp_path / "data" / "node-1" / "data"
    pins = json.loads(penstock("log", "pins", data, "-o", "json").stdout)
    assert [each["pin"] for each in pins["segments"]] == ["active"]
    assert pins["partitions"] == []
    assert b"ALONE_BYTES" in penstock("log", "pins", data).stdout
    lines = penstock("log", "dump", data, "-o", "json").stdout.splitlines()
    (batch,) = (frame for frame in map(json.loads, lines) if frame["kind"] == "batch")
    assert (batch["base_offset"], batch["record_count"]) == (0, 2)
    segment = data / "set-1" / "log" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[batch["position"] + batch["frame_bytes"] - 1] ^= 1
    segment.write_bytes(content)
    done = penstock("log", "verify", data / "set-1", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["logs"][0]["errors"] > 0
    done = penstock("log", "dump", data, "-o", "json")
    assert done.returncode == 1
    assert str(batch["position"]).encode() in done.stderr
    assert f"`penstock log verify {data / 'set-1'}`".encode() in done.stderr
    assert len(done.stdout.splitlines()) == lines.index(
        next(line for line in lines if json.loads(line)["kind"] == "batch")
    )


def test_a_directory_without_logs_is_one_line(tmp_path):
    refused(penstock("log", "verify", tmp_path), "holds no log: name a data directory")
    refused(penstock("log", "dump", tmp_path / "absent"), "is no directory: name a data directory")


def test_what_can_not_be_read_is_named_or_skipped(cluster):
    cluster.run("topic", "create", "lied", "-p", 1, "-c", "penstock.record.validation=header")
    fill_around_a_lie(cluster.port, "lied")
    complaint = failed(cluster, "consume", "lied")
    assert "lied-0: offsets 1 to 2 can not be read" in complaint
    assert "--skip-corrupt" in complaint
    assert cluster.run("consume", "lied", "--skip-corrupt") == "before\nbehind\n"
