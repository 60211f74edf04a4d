"""How many modules the longest paths cross is counted, and does not grow unnoticed."""

import pytest

from penstock.record.columns import IS_COMPILED
from tools.paths import measure

MODULES_MAX = {"produce": 50, "create": 106}
"""What is crossed today, and two for the luck of a run. Lower these as paths get shorter, and never
raise them without a reason in the commit; why not 30 and 45: docs/adr/0141."""


@pytest.mark.skipif(not IS_COMPILED, reason="interpreted twins are modules that nothing counts")
def test_a_produce_and_a_topic_creation_cross_no_more_modules_than_before() -> None:
    found = {name: len(path.modules) for name, path in measure().items()}
    assert found.keys() == MODULES_MAX.keys()
    assert {name: count for name, count in found.items() if count > MODULES_MAX[name]} == {}


def test_what_a_path_is_known_to_go_through_is_on_it() -> None:
    found = measure()
    assert {"kafka.handlers.records.produce", "storage.commit_log.writer"} <= set(
        found["produce"].modules
    )
    assert "controller.commands.create_topics" in found["create"].modules
    assert not [name for name in found["produce"].modules if name.startswith("controller")]
