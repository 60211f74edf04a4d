"""Planted bugs of what a broker tells of its addresses under Kafka's names."""

from .mutant import Kind, plant

AREA = "Settings"
ADDRESSES = "node/settings/address_entries.py"
NEAR = ("tests/node/test_settings_entries.py",)

MUTANTS = (
    plant(
        "addresses-advertised-as-bound",
        AREA,
        "tools are told addresses of listeners that nobody outside reaches",
        (ADDRESSES, "(told, *node.told_listeners())", "(told, *node.named_listeners())"),
        kind=Kind.STALE,
        near=NEAR,
    ),
    plant(
        "addresses-first-listener-as-bound",
        AREA,
        "the first listener is told where it is bound, behind the proxy that is advertised",
        (ADDRESSES, "*node.advertised())", "node.host, node.port)"),
        kind=Kind.STALE,
        near=NEAR,
    ),
    plant(
        "addresses-built-in-before-set",
        AREA,
        "addresses that the settings give are told as those that are built in",
        (ADDRESSES, "synonyms.insert(0, ", "synonyms.append("),
        kind=Kind.ORDER,
        near=NEAR,
    ),
    plant(
        "addresses-as-if-they-could-be-set",
        AREA,
        "tools believe that listeners can be set while a broker runs",
        (ADDRESSES, "is_read_only=True", "is_read_only=False"),
        kind=Kind.GUARD,
        near=NEAR,
    ),
    plant(
        "addresses-refused-as-unknown",
        AREA,
        "who sets advertised.listeners hears that there is no such key",
        ("node/settings/kafka_names.py", ' | dict.fromkeys(ADDRESS_NAMES, "")', ""),
        kind=Kind.GUARD,
        near=NEAR,
    ),
)
