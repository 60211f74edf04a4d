"""`penstock up --secure --rocketmq` as a gRPC client finds it."""

import shlex
from contextlib import closing
from pathlib import Path

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

import grpc
from harness.ports import free_port
from tests.cli.launched import launched
from tests.grpc.receiving import named
from tests.grpc.signing import SignedCaller


def test_clients_come_in_by_what_the_ready_line_says(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    where = f"remoting.port={ports[0]}", "--set", f"grpc.port={ports[1]}"
    with launched(tmp_path / "data", "--secure", "--rocketmq", "--set", *where) as up:
        ready = dict(word.split("=", 1) for word in shlex.split(up.ready_line)[1:])
        assert ready["grpc"] == f"127.0.0.1:{ports[1]}"
        user, secret = Path(ready["access-keys-file"]).read_text().strip().split(":")
        trusted = grpc.ssl_channel_credentials(Path(ready["ca"]).read_bytes())
        asked = service.QueryRouteRequest(topic=named("missing"))
        for told, code in (
            (secret, definition.TOPIC_NOT_FOUND),
            ("x" * 20, definition.UNAUTHORIZED),
        ):
            with closing(SignedCaller(ready["grpc"], user, told, trusted)) as caller:
                assert caller.call("QueryRoute", asked).status.code == code
        with (
            closing(SignedCaller(ready["grpc"], user, secret)) as plain,
            pytest.raises(grpc.RpcError) as failed,
        ):
            plain.call("QueryRoute", asked)
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
        assert secret not in up.errors()
