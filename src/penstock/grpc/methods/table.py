"""All methods of the service."""

from typing import Final

from penstock.grpc.methods import (
    ack_message,
    change_invisible,
    end_transaction,
    heartbeat,
    not_served,
    query_assignment,
    query_route,
    recall_message,
    receive_message,
    send_message,
    telemetry,
)
from penstock.grpc.needs import NEEDS

METHODS: Final = (
    ack_message.METHOD,
    change_invisible.CHANGE,
    change_invisible.FORWARD,
    end_transaction.METHOD,
    heartbeat.HEARTBEAT,
    heartbeat.TERMINATION,
    query_assignment.METHOD,
    query_route.METHOD,
    recall_message.METHOD,
    receive_message.METHOD,
    send_message.METHOD,
    telemetry.METHOD,
    *not_served.METHODS,
)
assert NEEDS.keys() == {one.name for one in METHODS} - {*not_served.NAMES}, "each has its row"
