"""A node without a port for gRPC clients pays nothing for them; one with it loads no grpcio."""

import subprocess
import sys

PREFIXES = "('penstock.grpc', 'penstock.http2', 'grpc', 'google')"


def loaded(more: str = "") -> list[str]:
    names = f"[name for name in sys.modules if name.startswith({PREFIXES})]"
    program = f"import sys, penstock.node.main, penstock.node.node{more}; print({names})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    return sorted(eval(done.stdout))


def test_a_node_without_the_port_loads_nothing_of_the_front() -> None:
    assert loaded() == ["penstock.grpc", "penstock.grpc.config"]


def test_the_front_loads_neither_grpcio_nor_protobuf() -> None:
    names = loaded(", penstock.grpc.port, penstock.grpc.methods.table")
    assert [name for name in names if not name.startswith("penstock.")] == []
