"""kafka-python waits for ever in a TLS handshake; the writers of the chaos runs bound that."""

import socket
import warnings

import pytest

from reliability.clients.stock_writers import bound_handshakes

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaTimeoutError
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport


def test_a_handshake_that_nobody_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaSSLTransport, "handshake", KafkaSSLTransport.handshake)  # put back
    bound_handshakes(0.05)
    net = NetworkSelector()
    with (
        socket.create_server(("127.0.0.1", 0)) as hanging,
        socket.create_connection(hanging.getsockname()) as connected,
    ):
        connected.setblocking(False)
        transport = KafkaSSLTransport(net, connected, host="localhost", ssl_check_hostname=False)
        with pytest.raises(KafkaTimeoutError):
            net.run(transport.handshake)
        transport.abort()
    net.close()
