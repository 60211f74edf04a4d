"""All methods of the service."""

from typing import Final

from penstock.grpc.methods import heartbeat, not_served, query_route, send_message, telemetry

METHODS: Final = (
    heartbeat.HEARTBEAT,
    heartbeat.TERMINATION,
    query_route.METHOD,
    send_message.METHOD,
    telemetry.METHOD,
    *not_served.METHODS,
)
