"""A call whose bytes are the test's, by h2."""

import socket

import h2.config
import h2.connection
import h2.events

from tests.live_node import ANSWER_SECONDS


class RawCall:
    """One connection."""

    def __init__(self, address: str, *, window: int | None = None) -> None:
        """`window` is what the client takes of each answer before it asks for more."""
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._h2 = h2.connection.H2Connection(config)
        if window is not None:
            self._h2.local_settings.initial_window_size = window
            self._h2.local_settings.acknowledge()
        self._h2.initiate_connection()

    def call(
        self,
        path: str,
        body: bytes,
        *,
        method: str = "POST",
        content_type: str = "application/grpc",
        client_id: str = "",
        deadline: str = "",
    ) -> dict[str, str]:
        """Call; return the status of an answer, and of gRPC where there is one.

        `deadline` is told to the node, as `500m`; this side has none.
        """
        stream_id = self._h2.get_next_available_stream_id()
        headers = {":method": method, ":scheme": "http", ":path": path, ":authority": "x"}
        headers |= {"content-type": content_type, "te": "trailers"}
        headers |= {"x-mq-client-id": client_id} if client_id else {}
        headers |= {"grpc-timeout": deadline} if deadline else {}
        self._h2.send_headers(stream_id, list(headers.items()))
        self._h2.send_data(stream_id, body, end_stream=True)
        told: dict[str, str] = {}
        while True:
            self._socket.sendall(self._h2.data_to_send())
            for event in self._h2.receive_data(self._socket.recv(65_536)):
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    told |= {str(name): str(value) for name, value in event.headers}
                if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                    wanted = "grpc-status" if "grpc-status" in told else ":status"
                    return {wanted: told[wanted]}

    def begin(self, path: str, body: bytes) -> None:
        """Send the beginning of a call, and nothing more."""
        stream_id = self._h2.get_next_available_stream_id()
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x"}
        headers |= {"content-type": "application/grpc", "te": "trailers"}
        self._h2.send_headers(stream_id, list(headers.items()))
        for at in range(0, len(body), 16_384):
            self._h2.send_data(stream_id, body[at : at + 16_384])
        self._socket.sendall(self._h2.data_to_send())

    def close(self) -> None:
        self._socket.close()
