"""What is told to whom wants to change a setting that does not change while a node runs.

Source: ours; Kafka's `DynamicBrokerConfig.validateConfigs` refuses such names, too.
"""


def why_read_only(key: str, other: str) -> str:
    """Return the reason; `other` is the name to change instead, empty if there is none."""
    told = f"change {other} instead." if other else _RESTART
    return f"{key} is read-only while a broker runs: {told}"


_RESTART = "change it in the node's settings file and restart the node."
