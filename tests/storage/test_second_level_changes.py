"""Changes of the second level's files: one after the other, in the order in which they come."""

from penstock.base.errors import PlatformError
from penstock.storage.errors import LogBusy
from penstock.storage.second_level.changes import Changes


def test_changes_follow_one_another() -> None:
    changes, begun = Changes(), list[str]()
    told: list[PlatformError | None] = []
    for name in ("first", "second", "third"):
        changes.begin(lambda name=name: begun.append(name))  # type: ignore[misc]
    assert begun == ["first"]
    changes.end(told.append, None)
    assert begun == ["first", "second"]
    busy = LogBusy("p")
    changes.end(told.append, busy)
    assert begun == ["first", "second", "third"]
    assert told == [None, busy]


def test_a_change_that_begins_as_another_is_told_of_its_end_is_the_next_one() -> None:
    changes, begun = Changes(), list[str]()
    changes.begin(lambda: begun.append("first"))
    changes.end(lambda _: changes.begin(lambda: begun.append("second")), None)
    changes.begin(lambda: begun.append("third"))
    assert begun == ["first", "second"]
