"""The examples that `--help` prints run as they are printed, each for itself, on real nodes.

An example needs something to work on: `BEFORE` has the lines that make it, and `AFTER` those that
take back what others would stumble over. A line there may fail, since it may be done already. What
an example can not do here is in `REFUSED`, with words of the line that says what to do.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from penstock.cli.examples import EXAMPLES
from tests.cli.example_world import World, example_world

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

STARTED = ("node", "serve", "controller", "up", "http", "land", "")
"""What they show runs until it is ended, or needs Spark: `test_started_examples.py`."""
ELSEWHERE = {
    "penstock archive run orders --to s3://archive/orders --store endpoint=https://s3.example"
    " --store access-key-id=me --store secret-key-file=secret": "a bucket of somebody else",
    "penstock consume greetings --from end --follow": "runs until it is ended",
    "penstock message find orders --key order-17": "port 9876: test_message.py",
    "penstock message find orders --id 7F0000010B4C18B4AAC21A3D5C7E0000 -o json": "as above",
    "penstock message trace orders --key order-17": "as above: test_message_trace.py",
    "penstock message trace orders --key order-17 --groups localhost:9092": "as above",
    "penstock message trace orders --id 7F0000010B4C18B4AAC21A3D5C7E0000 -o json": "as above",
}
TOPICS = ("greetings", "orders", "orders-again", "test", "a", "b")
READERS = (
    "printf 'one\\n' | penstock produce greetings",
    "penstock consume greetings --group readers",
)
ARCHIVE = (
    "penstock produce orders orders.csv --format csv",
    "penstock archive run orders --to /archive/orders --keep 5y",
)
QUOTAS = (
    "penstock quota set --user alice producer_byte_rate=1048576",
    "penstock quota set --ip 10.0.0.7 connection_creation_rate=20",
)
ADD_USER = ("penstock user add reader --password-file reader.password",)
ADD_RULE = "penstock acl add --allow User:alice --operation read topic:orders"
OUT_OF_SET_1 = ("penstock set remove 1 4",)
NO_VOTE = ("penstock controller remove 4",)
DELETED = ("penstock topic delete greetings --yes",)
BEFORE = {
    "group describe": READERS,
    "group delete": READERS,
    "group reset readers": READERS,
    "group reset workers": ("penstock consume orders --group workers",),
    "archive ls": ARCHIVE,
    "archive verify": ARCHIVE,
    "archive prune": ARCHIVE,
    "replay": ARCHIVE,
    "user delete": ADD_USER,
    "quota delete": QUOTAS,
    "acl remove --principal": (ADD_RULE,),
    "acl remove 'topic:orders-*'": (
        "penstock acl add --deny User:bob --operation read 'topic:orders-*'",
    ),
    "consume greetings --group": READERS[:1],
    "controller transfer": ("penstock controller transfer 1",),
    "set add 1": OUT_OF_SET_1,
    "set remove 1 4": ("penstock set add 1 4",),
    "controller add 4": NO_VOTE,
    "controller remove 4": ("penstock controller add 4 10.0.0.4:9093",),
    "topic create greetings": DELETED,
}
AFTER = {
    "node drain 2": ("penstock node drain 2 --undo",),
    "cluster failover off": ("penstock cluster failover on",),
    "topic delete a b": ("penstock topic create a", "penstock topic create b"),
    "set add 1": OUT_OF_SET_1,
    "set policy": ("penstock set policy 1 all",),
    "controller add 4": NO_VOTE,
    "config set broker": ("penstock config unset broker 1 node.log_level",),
    "acl add": ("penstock acl remove --principal User:alice --yes",),
}
TRANSACTIONS = ("transaction describe orders-1", "transaction abort orders-1")
WITHIN = {"penstock archive ls . --files -o json": "archive/orders"}
"""Where an example is run that names the place where it is run."""
REFUSED = {
    # A cluster with users can not go back to a level that has none.
    "cluster downgrade": "SCRAM credentials",
    # What they are for is a broker that is gone.
    "cluster remove-broker": "is a member of the replica sets",
    "cluster forget-identity": "is alive: its identity is in use. Stop it first",
    "set elect": "is alive: ask for a transfer",
    # No topic is copied into the store.
    "archive recover": "the store has no objects: see tier.url",
    "tier repair": "no topic was copied into it yet (remote.storage.enable)",
    # No client of these tests pushes metrics.
    "audit metrics": "say with `penstock config set client-metrics NAME` what clients push",
    # Nobody is at a terminal to say yes.
    "topic delete greetings": "say --yes to delete with all records",
    "acl remove --principal": "removing rules asks first: give --yes",
}
SAYS = {
    "node drain 2": "Broker 2",
    "controller transfer": "2 is the active controller",
    "controller add": "4 at 127.0.0.1",
    "controller remove": "4 is no longer a controller",
    "cluster failover off": "the set waits until it is back",
    "set transfer 1 --to": "Broker 2 is master of replica set 1",
    "set create": "with members 1,2,3",
    "set add": "copies its log now",
    "set remove": "broker 4 is no member of set 1 any more",
    "set policy 1 k-of-n": "acknowledges by k-of-n",
    "topic create short": "short",
    "topic create greetings": "greetings",
    "topic delete a b": "deleted a, b",
    "topic describe": "IN_SYNC",
    "consume greetings --group": "one",
    "group describe": "readers",
    "group reset": "AFTER",
    "group delete": "deleted readers",
    "token renew": "is good until",
    "token list": "OWNER",
    "user add": "user reader has a password",
    "user delete": "user reader is deleted",
    "transaction describe": "Ongoing",
    "config set broker default": "set log.retention.ms of broker default",
    "quota delete": "1 deleted",
    "quota set --ip": "10.0.0.7",
    "acl remove 'topic:orders-*'": "1 removed",
    "archive ls": "orders",
    "replay /archive/orders --to-topic orders-again": "orders-again",
    "replay /archive/orders --to-topic test": "test",
    "acl propose": "the audit saw nothing that User:alice was permitted since beginning",
    "log verify": "ERRORS",
    "doctor": "kernel",
}
ON_NODES = [
    example
    for name, examples in EXAMPLES.items()
    for example in examples
    if name not in STARTED and example not in ELSEWHERE and not example.startswith("penstock up")
]


def entries(table: dict, example: str) -> list:
    """Return what a table has for the commands that the example begins with."""
    called = example.removeprefix("penstock ") + " "
    return [value for begin, value in table.items() if called.startswith(f"{begin} ")]


def begins(example: str, *commands: str) -> bool:
    return bool(entries(dict.fromkeys(commands, True), example))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with example_world(tmp_path_factory.mktemp("examples")) as world:
        for topic in TOPICS:
            made = world.run(f"penstock topic create {topic}")
            assert made.code == 0, made
        yield world


@contextmanager
def prepared(world: World, example: str) -> Iterator[None]:
    """Make what the example works on, and take back afterwards what it has done."""
    with ExitStack() as stack:
        if begins(example, *TRANSACTIONS):
            stack.enter_context(world.open_transaction("orders-1"))
        for lines in entries(BEFORE, example):
            for line in lines:
                world.run(world.placed(line))
        yield
        for lines in entries(AFTER, example):
            for line in lines:
                world.run(world.placed(line))


@pytest.mark.parametrize("example", ON_NODES)
def test_an_example_does_what_it_shows(world, example):
    with prepared(world, example):
        ran = world.run(world.placed(example), WITHIN.get(example, ""))
    said = ran.out + ran.errors
    assert "Traceback" not in said
    assert "--debug" not in said
    refused = entries(REFUSED, example)
    assert (ran.code != 0) == bool(refused), ran
    for words in refused or entries(SAYS, example) * ("-o json" not in example):
        assert words in said, ran
    if refused:
        assert ran.errors.startswith("penstock: ")
        assert ran.errors.count("\n") == 1
    elif example.endswith("-o json"):
        json.loads(ran.out)
