"""The examples at the end of every `--help`; a test checks that each command has some.

They are attached when the program is assembled, so that a command's module has only its code.
"""

import typer

EXAMPLES = {
    "": ("penstock up --nodes 3", "penstock topic create greetings", "penstock doctor"),
    "node": ("penstock node --config /etc/penstock/node.toml",),
    "node drain": ("penstock node drain 2", "penstock node drain 2 --undo"),
    "serve": (
        "penstock serve --config /etc/penstock/machine.toml",
        "penstock serve --config /etc/penstock/machine.toml --nodes 4 --pin",
    ),
    "controller": ("penstock controller --config /etc/penstock/controller.toml",),
    "controller status": ("penstock controller status", "penstock controller status -o json"),
    "controller transfer": ("penstock controller transfer 2",),
    "controller add": ("penstock controller add 4 10.0.0.4:9093",),
    "controller remove": ("penstock controller remove 4",),
    "up": (
        "penstock up",
        "penstock up --nodes 3 --data /tmp/cluster --port 19092",
        "penstock up --secure",
        "penstock up --rocketmq",
    ),
    "doctor": ("penstock doctor", "penstock doctor --config /etc/penstock/node.toml -o json"),
    "cluster": ("penstock cluster status",),
    "cluster status": ("penstock cluster status", "penstock cluster status -o json"),
    "cluster spread": ("penstock cluster spread --dry-run", "penstock cluster spread --yes"),
    "cluster features": ("penstock cluster features", "penstock cluster features -o json"),
    "cluster upgrade": ("penstock cluster upgrade",),
    "cluster downgrade": ("penstock cluster downgrade --level 1",),
    "cluster failover": ("penstock cluster failover off",),
    "cluster remove-broker": ("penstock cluster remove-broker 3",),
    "cluster forget-identity": ("penstock cluster forget-identity 3",),
    "set": ("penstock set list", "penstock set describe 1"),
    "set list": ("penstock set list --data /tmp/cluster",),
    "set describe": ("penstock set describe 1", "penstock set describe 1 -o json"),
    "set elect": ("penstock set elect 1 --master 2",),
    "set transfer": ("penstock set transfer 1", "penstock set transfer 1 --to 2"),
    "set create": ("penstock set create 1,2,3",),
    "set add": ("penstock set add 1 4", "penstock set add 1"),
    "set remove": ("penstock set remove 1 4",),
    "set policy": ("penstock set policy 1 all", "penstock set policy 1 k-of-n --required 2"),
    "set unclean": ("penstock set unclean 1 off",),
    "audit": (
        "penstock audit who orders",
        "penstock audit slice --at 2026-01-31T12:00",
        "penstock audit metrics --client-id billing",
    ),
    "audit metrics": (
        "penstock audit metrics --metric org.apache.kafka.consumer. --from 2026-01-31T12:00",
    ),
    "audit who": ("penstock audit who orders --from 2026-01-31T12:00 -o json",),
    "audit slice": ("penstock audit slice --at 2026-01-31T12:00 -o json",),
    "tier": ("penstock tier partitions --config /etc/penstock/node.toml",),
    "tier objects": ("penstock tier objects --config /etc/penstock/node.toml -o json",),
    "tier partitions": ("penstock tier partitions --config /etc/penstock/node.toml",),
    "tier verify": ("penstock tier verify --config /etc/penstock/node.toml",),
    "message": ("penstock message find orders --key order-17",),
    "message find": (
        "penstock message find orders --key order-17",
        "penstock message find orders --id 7F0000010B4C18B4AAC21A3D5C7E0000 -o json",
    ),
    "message trace": (
        "penstock message trace orders --key order-17",
        "penstock message trace orders --key order-17 --groups localhost:9092",
        "penstock message trace orders --id 7F0000010B4C18B4AAC21A3D5C7E0000 -o json",
    ),
    "topic": ("penstock topic list", "penstock topic create greetings --partitions 3"),
    "topic create": (
        "penstock topic create greetings --partitions 3 --replicas 2",
        "penstock topic create short -c retention.ms=3600000 --if-absent",
    ),
    "topic list": ("penstock topic list", "penstock topic list --internal -o json"),
    "topic describe": ("penstock topic describe greetings",),
    "topic alter": ("penstock topic alter greetings --partitions 6 -c retention.bytes=1000000000",),
    "topic delete": ("penstock topic delete greetings", "penstock topic delete a b --yes"),
    "topic truncate": ("penstock topic truncate greetings --before 2026-01-31T12:00",),
    "produce": (
        "penstock produce greetings < lines.txt",
        "printf 'de:hallo\\n' | penstock produce greetings --key-separator :",
        "penstock consume a --format json | penstock produce b --format record",
        "penstock produce orders orders.csv --format csv --key-field id --header source=shop",
    ),
    "consume": (
        "penstock consume greetings --max 10",
        "penstock consume greetings --from end --follow",
        "penstock consume greetings --group readers",
        "penstock consume greetings --format json --from 2026-01-31",
    ),
    "group": ("penstock group list", "penstock group describe readers"),
    "http": (
        "penstock http --tokens tokens.toml",
        "penstock http --bootstrap node-1:9876,node-2:9876 --listen 0.0.0.0:8443"
        " --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem",
    ),
    "group list": ("penstock group list",),
    "group describe": ("penstock group describe readers",),
    "group reset": (
        "penstock group reset readers --to beginning --topic greetings --dry-run",
        "penstock group reset workers --to 2026-11-01T00:00:00",
    ),
    "group delete": ("penstock group delete readers",),
    "token": ("penstock token list", "penstock token create --renewer yarn"),
    "token create": (
        "penstock token create --renewer yarn --password-file job.password",
        "penstock token create --owner alice --lifetime 3600 -o json",
    ),
    "token renew": ("penstock token renew 3374b3-f5hmnu22TRSbk_A0hJQgMQ",),
    "token expire": (
        "penstock token expire 3374b3-f5hmnu22TRSbk_A0hJQgMQ",
        "penstock token expire 3374b3-f5hmnu22TRSbk_A0hJQgMQ --period 60",
    ),
    "token list": ("penstock token list", "penstock token list --owner alice -o json"),
    "user": ("penstock user list", "penstock user add reader --password-file reader.password"),
    "user list": ("penstock user list", "penstock user list -o json"),
    "user add": ("penstock user add reader --password-file reader.password",),
    "user delete": ("penstock user delete reader",),
    "transaction": ("penstock transaction list", "penstock transaction describe orders-1"),
    "transaction list": (
        "penstock transaction list",
        "penstock transaction list --state Ongoing --longer-than 60 -o json",
    ),
    "transaction describe": ("penstock transaction describe orders-1",),
    "transaction abort": ("penstock transaction abort orders-1",),
    "transaction hanging": (
        "penstock transaction hanging",
        "penstock transaction hanging --idle 3600 --abort",
    ),
    "config": ("penstock config describe topic greetings --changed",),
    "config describe": (
        "penstock config describe topic greetings",
        "penstock config describe broker 1 --documentation",
        "penstock config describe broker default",
        "penstock config describe client-metrics all",
    ),
    "config set": (
        "penstock config set topic greetings retention.ms=86400000",
        "penstock config set broker default log.retention.ms=86400000",
        "penstock config set broker 1 node.log_level=debug",
        "penstock config set group readers consumer.session.timeout.ms=50000",
    ),
    "config unset": (
        "penstock config unset topic greetings retention.ms",
        "penstock config unset broker default log.retention.ms",
    ),
    "config list": ("penstock config list group",),
    "acl": ("penstock acl list",),
    "acl add": (
        "penstock acl add --allow User:alice --operation read 'topic:orders-*' group:billing",
        "penstock acl add --deny 'User:*' --host 10.0.0.7 --operation all 'topic:*'",
    ),
    "acl list": ("penstock acl list", "penstock acl list topic:orders --applying -o json"),
    "acl propose": ("penstock acl propose --principal User:alice",),
    "acl remove": (
        "penstock acl remove --principal User:alice",
        "penstock acl remove 'topic:orders-*' --permission deny --yes",
    ),
    "quota": ("penstock quota list",),
    "quota list": ("penstock quota list", "penstock quota list --user alice -o json"),
    "quota set": (
        "penstock quota set --user alice producer_byte_rate=1048576",
        "penstock quota set --user alice --client-id app request_percentage=5",
        "penstock quota set --ip 10.0.0.7 connection_creation_rate=20",
    ),
    "quota delete": (
        "penstock quota delete --user alice producer_byte_rate",
        "penstock quota delete --ip 10.0.0.7",
    ),
    "log": ("penstock log verify penstock-data/node-1/data",),
    "log dump": ("penstock log dump penstock-data/node-1/data --max 20",),
    "log verify": ("penstock log verify penstock-data/node-1/data",),
    "log pins": ("penstock log pins penstock-data/node-1/data",),
    "tier repair": (
        "penstock tier repair --config /etc/penstock/node.toml",
        "penstock tier repair --config /etc/penstock/node.toml --delete",
    ),
    "tier status": (
        "penstock tier status",
        "penstock tier status node-1:9404 node-2:9404 node-3:9404 -o json",
    ),
    "land": (
        "penstock land greetings --to tables/greetings --schema text",
        "penstock land orders --to tables/orders --format delta --stream",
    ),
    "archive": ("penstock archive run orders --to /archive/orders --keep 5y",),
    "archive run": (
        "penstock archive run orders --to /archive/orders --keep 5y",
        "penstock archive run orders --to s3://archive/orders --store endpoint=https://s3.example"
        " --store access-key-id=me --store secret-key-file=secret",
    ),
    "archive recover": (
        "penstock archive recover orders --to /archive/orders --config /etc/penstock/node.toml"
        " --topic-id 0f8fad5b-d9cb-469f-a165-70867728950e",
    ),
    "archive ls": ("penstock archive ls /archive/orders", "penstock archive ls . --files -o json"),
    "archive verify": ("penstock archive verify /archive/orders",),
    "archive prune": (
        "penstock archive prune /archive/orders --dry-run",
        "penstock archive prune /archive/orders --keep 7y",
    ),
    "replay": (
        "penstock replay /archive/orders --to-topic orders-again --same-partitions",
        "penstock replay /archive/orders --to-topic test --from 2025-01-31 --rate 1000",
    ),
}


def attach(app: typer.Typer) -> None:
    """Add its examples to the help of every command."""
    app.info.epilog = epilog("")
    _attach(app, "")
    for group in app.registered_groups:
        assert group.name is not None
        assert group.typer_instance is not None
        group.epilog = epilog(group.name)
        _attach(group.typer_instance, f"{group.name} ")


def _attach(app: typer.Typer, prefix: str) -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        command.epilog = epilog(prefix + name)


def epilog(command: str) -> str:
    """Return the end of a command's help, with a mark that keeps its lines from being wrapped."""
    lines = EXAMPLES.get(command, ())
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
