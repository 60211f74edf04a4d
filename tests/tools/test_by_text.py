"""A comparison with an error's text is found; one with its type or its fields is not."""

import pytest

from tests.tools.test_classes import load

tidy = load("tidy")
by_text = load("by_text")


def findings(condition, path="src/penstock/raft/thing.py"):
    text = f"try:\n    f()\nexcept OSError as error:\n    if {condition}:\n        raise\n"
    return list(by_text.check_by_text(tidy.read_source(path, text)))


@pytest.mark.parametrize(
    "condition", ['"write" in str(error)', 'error.args[0] == "full"', '"x" != repr(error)']
)
def test_a_decision_by_an_errors_text_is_found(condition):
    (found,) = findings(condition)
    assert found.line == 4


@pytest.mark.parametrize(
    "condition", ["error.errno == 28", "isinstance(error, EOFError)", "str(error) != str(e)"]
)
def test_a_decision_by_an_errors_type_or_field_is_not_found(condition):
    assert not findings(condition)
    assert not findings('"write" in str(error)', "src/penstock/record/compression.py")
