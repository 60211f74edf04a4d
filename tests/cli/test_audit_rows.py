"""What the commands make of rows, without a node."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.audit.counts import NUMBERS
from penstock.audit.row import Row, RowKey, Who
from penstock.audit.uses import Use
from penstock.base.errors import ConfigError
from penstock.cli.access import proposals
from penstock.cli.access.audit import _is_of_topic
from penstock.cli.access.audit_rows import since
from penstock.cli.access.proposals import lines, uses_since


def key(operation: str, topic: str = "orders", partition: int = -1, user: str = "a") -> RowKey:
    return RowKey(Who(f"User:{user}", "c", "s", "1", "::1"), operation, topic, partition)


def test_a_group_with_the_name_of_a_topic_is_another_thing() -> None:
    assert _is_of_topic(key("produce", partition=3), "orders")
    assert _is_of_topic(key("denied write topic"), "orders")
    assert not _is_of_topic(key("allowed read group"), "orders")
    assert not _is_of_topic(key("produce", "other", 3), "orders")


def test_rules_are_commands_for_a_shell_one_for_each_principal_and_resource() -> None:
    assert lines(
        [
            Use("User:a", "cluster", "kafka-cluster", "alter_configs"),
            Use("User:a", "topic", "t", "create"),
            Use("User:a", "topic", "t", "write"),
            Use("User:b c", "transactional_id", "it's", "write"),
        ]
    ) == [
        "penstock acl add --allow User:a --operation alter-configs cluster",
        "penstock acl add --allow User:a --operation create --operation write topic:t",
        """penstock acl add --allow 'User:b c' --operation write 'transactional-id:it'"'"'s'""",
    ]


@pytest.mark.parametrize("name", ["jobs-*", "*", "", " "])
def test_a_name_that_would_be_read_as_a_pattern_makes_no_line_and_is_told(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines([Use("User:a", "group", name, "read")]) == []
    assert "JSON only" in capsys.readouterr().err


def test_what_is_left_out_of_a_proposal_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(*_: Any) -> Iterator[Row]:
        for name in ("g1", "g2", "g1", "g" * 255):
            counts = dict.fromkeys(NUMBERS, 0) | {"requests": 1}
            yield Row(1, 1_000, 2_000, key("allowed read group", name), counts)
            yield Row(1, 1_000, 2_000, key("allowed read group", name, user="b"), counts)

    monkeypatch.setattr(proposals, "rows_since", rows)
    monkeypatch.setattr(proposals, "USES_MAX", 1)
    assert uses_since("", 1.0, "beginning", "User:a") == [Use("User:a", "group", "g1", "read")]
    told = capsys.readouterr().err
    assert "1 rows are left out, as there are too many uses" in told
    assert "1 rows are left out, whose names are longer" in told
    assert uses_since("", 1.0, "@2000", "User:a") == [], "the fold was over by then"


def test_only_times_say_since_when() -> None:
    assert since("@7").value == 7
    for text in ("end", "7"):
        with pytest.raises(ConfigError):
            since(text)
