"""A comparison with an error's text is found; one with its type or its fields is not."""

import pytest

from tests.tools.test_classes import load

tidy = load("tidy")
by_text = load("by_text")


def findings(condition, path="src/penstock/raft/thing.py"):
    text = f"try:\n    f()\nexcept OSError as error:\n    if {condition}:\n        raise\n"
    return list(by_text.check_by_text(tidy.read_source(path, text)))


@pytest.mark.parametrize(
    "condition",
    [
        '"write" in str(error)',
        'error.args[0] == "full"',
        '"x" != repr(error)',
        'str(error).startswith("no")',
        'error.reason == "the disk is full"',
        '"full" in error.strerror',
        'error.text.endswith(".")',
        're.search("full", str(error))',
        "FULL not in error.format_message()",
    ],
)
def test_a_decision_by_an_errors_text_is_found(condition):
    (found,) = findings(condition)
    assert found.line == 4


@pytest.mark.parametrize("condition", ['"full" in text', 'text.startswith("no")', "text == FULL"])
def test_a_text_that_was_taken_before_is_found_in_a_function_that_is_given_the_error(condition):
    text = f"def f(error):\n    text = str(error).rstrip('.')\n    return {condition}\n"
    (found,) = by_text.check_by_text(tidy.read_source("src/penstock/raft/thing.py", text))
    assert found.line == 3


@pytest.mark.parametrize(
    "condition",
    [
        "error.errno == 28",
        "isinstance(error, EOFError)",
        "str(error) != str(e)",
        "error.reason is Reason.STALE",
        "error.reason in {Reason.STALE}",
        'error.strerror or "none"',
    ],
)
def test_a_decision_by_an_errors_type_or_field_is_not_found(condition):
    assert not findings(condition)
    assert not findings('"write" in str(error)', "src/penstock/record/compression.py")
