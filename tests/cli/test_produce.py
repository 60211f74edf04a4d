"""`penstock produce` and `consume` against a node: ends, limits, errors half way, groups."""

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import termios
from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from tests.cli.launched import PENSTOCK, START_SECONDS_MAX, launched

pytestmark = pytest.mark.process

READ_SECONDS_MAX = UNTIL_SECONDS
BIG_SEGMENTS = ("--set", "log.segment_bytes=8388608")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with launched(tmp_path_factory.mktemp("node") / "data", *BIG_SEGMENTS) as up:
        yield up


@pytest.fixture
def topic(node, request):
    name = request.node.name[:200]
    node.run("topic", "create", name, "--partitions", "1")
    return name


def lines_of(node, topic):
    return node.run("consume", topic).splitlines()


def _take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Typed:
    """A command on a terminal of its own."""

    def __init__(self, node, *arguments):
        self._terminal, child = pty.openpty()
        self._said = b""
        self.process = subprocess.Popen(
            [*PENSTOCK, *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  no thread is running here
            env={**os.environ, "PENSTOCK_BOOTSTRAP": node.bootstrap},
        )
        os.close(child)

    def type(self, keys):
        os.write(self._terminal, keys)

    def rest(self):
        """Return everything that was said, once the command has ended."""
        while select.select([self._terminal], [], [], READ_SECONDS_MAX)[0]:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:  # the other end was closed
                break
            if not data:
                break
            self._said += data
        os.close(self._terminal)
        self.process.wait(timeout=READ_SECONDS_MAX)
        return self._said.decode()


def test_ctrl_c_at_a_terminal_ends_the_input_and_keeps_what_was_typed(node, topic):
    typed = Typed(node, "produce", topic)
    typed.type(b"first\nsecond\n")
    reader = subprocess.Popen(
        [*PENSTOCK, "consume", topic, "--follow", "--max", "2", "-b", node.bootstrap],
        stdout=subprocess.PIPE,
    )
    assert reader.communicate(timeout=READ_SECONDS_MAX)[0] == b"first\nsecond\n"
    typed.type(b"\x03")
    said = typed.rest()
    assert typed.process.returncode == 130
    assert "Fatal" not in said
    assert "records_per_second" in said.lower()


def test_who_types_is_told_how_it_ends_and_nothing_is_drawn_over_it(node, topic):
    typed = Typed(node, "produce", topic)
    typed.type(b"one\n\x04")
    said = typed.rest()
    assert typed.process.returncode == 0
    assert said.count("Ctrl-D ends") == 1
    assert "━" not in said


def test_a_deletion_that_is_declined_says_so_and_fails(node, topic):
    typed = Typed(node, "topic", "delete", topic)
    typed.type(b"n\n")
    said = typed.rest()
    assert typed.process.returncode == 1
    assert "penstock: nothing is deleted" in said
    assert topic in node.run("topic", "list")


def test_a_signal_to_a_piped_producer_keeps_what_came_before(node, topic):
    producer = subprocess.Popen(
        [*PENSTOCK, "produce", topic, "-b", node.bootstrap],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert producer.stdin is not None
    producer.stdin.write(b"before\n")
    producer.stdin.flush()
    follow = [*PENSTOCK, "consume", topic, "--follow", "--max", "1", "-b", node.bootstrap]
    assert subprocess.run(follow, capture_output=True, check=True).stdout == b"before\n"
    producer.send_signal(signal.SIGINT)
    _, errors = producer.communicate(timeout=READ_SECONDS_MAX)
    assert (producer.returncode, errors) == (130, b"")


def test_records_up_to_the_limit_of_the_topic_are_taken(node, topic):
    node.run("config", "set", "topic", topic, "max.message.bytes=3000000")
    sizes = [10, 600_000, 2_999_000, 20]
    text = "".join("x" * size + "\n" for size in sizes)
    node.run("produce", topic, stdin=text.encode())
    assert [len(line) for line in lines_of(node, topic)] == sizes


def test_a_topic_with_a_low_limit_gets_batches_that_it_takes(node, topic):
    node.run("config", "set", "topic", topic, "max.message.bytes=2000")
    node.run("produce", topic, stdin=b"0123456789\n" * 5000)
    assert len(lines_of(node, topic)) == 5000


def test_a_record_over_the_limit_is_named_with_its_line_and_the_setting(node, topic):
    text = b"small\n" + b"x" * 1_100_000 + b"\n"
    code, _, errors = node.try_to_run("produce", topic, stdin=text)
    assert code == 1
    assert errors.startswith("penstock: stdin, line 2: a record of 11000")
    assert f"penstock config set topic {topic} max.message.bytes=11000" in errors
    assert errors.endswith("; 1 record is acknowledged\n")
    assert lines_of(node, topic) == ["small"]


def test_good_lines_before_one_that_can_not_be_read_are_stored(node, topic):
    text = b'{"a": 1}\n' * 1000 + b"{broken\n" + b'{"a": 2}\n'
    code, _, errors = node.try_to_run("produce", topic, "--format", "json", stdin=text)
    assert code == 2
    assert errors.startswith("penstock: stdin, line 1001: not JSON")
    assert errors.endswith("; 1000 records are acknowledged\n")
    assert len(lines_of(node, topic)) == 1000


def test_records_with_headers_and_keys_come_back_as_they_were(node, topic):
    documents: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "headers": [{"name": "a", "value": "1"}]},
        {"key": None, "value_base64": "/w=="},
        {"key": "gone", "value": None},
    ]
    text = "\n".join(map(json.dumps, documents))
    node.run("produce", topic, "--format", "record", "--header", "all=yes", stdin=text.encode())
    found = [json.loads(line) for line in node.run("consume", topic, "-o", "json").splitlines()]
    yes = {"name": "all", "value": "yes"}
    assert [one["headers"] for one in found] == [[yes, {"name": "a", "value": "1"}], [yes], [yes]]
    kept = [{k: v for k, v in one.items() if k.startswith(("key", "value"))} for one in found]
    assert kept == [{k: v for k, v in document.items() if k != "headers"} for document in documents]


def test_a_reader_that_has_enough_ends_the_consumer_well(node, topic):
    node.run("produce", topic, stdin=b"line of some length\n" * 20_000)
    command = f"{' '.join(PENSTOCK)} consume {topic} -b {node.bootstrap} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "line of some length\n", "")


def test_a_reader_that_has_enough_ends_a_consumer_that_waits_for_more(node, topic):
    node.run("produce", topic, stdin=b"first\n")
    command = f"{' '.join(PENSTOCK)} consume {topic} --follow -b {node.bootstrap} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=READ_SECONDS_MAX,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\n", "")


def test_a_group_goes_on_where_it_was(node, topic):
    node.run("produce", topic, stdin=b"a\nb\nc\n")
    assert node.run("consume", topic, "--group", "goes-on", "--max", "2") == "a\nb\n"
    assert node.run("consume", topic, "--group", "goes-on") == "c\n"
    assert node.run("consume", topic, "--group", "goes-on") == ""
    described = json.loads(node.run("group", "describe", "goes-on", "-o", "json"))
    assert (described["state"], described["lag"]) == ("Empty", 0)


def test_a_group_is_moved_behind_what_was_printed_when_ctrl_c_ends_it(node, topic):
    node.run("produce", topic, stdin=b"a\nb\n")
    follow = [*PENSTOCK, "consume", topic, "--group", "stopped"]
    follow += ["--follow", "-b", node.bootstrap]
    with subprocess.Popen(follow, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() + reader.stdout.readline() == b"a\nb\n"
        reader.send_signal(signal.SIGINT)
        assert reader.wait(READ_SECONDS_MAX) == 130
    assert node.run("consume", topic, "--group", "stopped") == ""


def test_a_group_with_members_is_left_alone(node, topic):
    from confluent_kafka import Consumer

    member = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "busy"})
    member.subscribe([topic])
    try:
        assert wait_until(lambda: (member.poll(0.1), member.assignment())[1], START_SECONDS_MAX)
        code, out, errors = node.try_to_run("consume", topic, "--group", "busy")
    finally:
        member.close()
    assert (code, out) == (1, "")
    assert errors.startswith("penstock: group busy has 1 members, which read already: stop them")


def test_settings_of_a_broker_that_is_not_there_are_refused_at_once(node):
    code, _, errors = node.try_to_run("config", "describe", "broker", "9", "--timeout", "600")
    assert code == 1
    assert errors == "penstock: broker 9 is not in the cluster now; its brokers are 1\n"
