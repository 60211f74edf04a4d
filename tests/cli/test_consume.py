"""A place that has nothing behind it is told, not answered with silence."""

import io
import os
import sys

import pytest

from penstock.cli import consume
from penstock.cli.records.places import Place

STARTS = {("t", 0): 34, ("t", 1): 20}


@pytest.mark.parametrize(
    ("place", "ends", "is_told"),
    [
        ("99", STARTS, True),
        ("2999-01-01", STARTS, True),
        ("99", {("t", 0): 34, ("t", 1): 21}, False),
        ("beginning", STARTS, False),
        ("99", None, True),
        ("34", None, False),
        ("2999-01-01", None, False),
        ("end", None, False),
    ],
)
def test_a_place_that_was_named_is_behind_the_log_where_no_partition_reaches_it(
    place, ends, is_told
):
    assert consume._is_behind(Place.parse(place), STARTS, ends) is is_told


def test_the_message_says_where_the_log_ends(capsys):
    consume._tell_nothing("t", "99", STARTS)
    told = "t has nothing from 99 on: it ends at 34 in partition 0, 20 in partition 1\n"
    assert capsys.readouterr() == ("", told)


def test_the_message_names_a_few_partitions_of_many(capsys):
    consume._tell_nothing("t", "99", {("t", one): one for one in range(10)})
    assert capsys.readouterr().err.endswith(" 4 in partition 4, and 5 more\n")


def test_a_pipe_is_left_once_its_reader_is_gone(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as writer:
        monkeypatch.setattr(sys, "stdout", writer)
        consume.end_with_reader()
        reader.close()
        with pytest.raises(BrokenPipeError):
            consume.end_with_reader()


def test_output_that_is_no_pipe_is_not_left(monkeypatch, tmp_path):
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        consume.end_with_reader()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    consume.end_with_reader()
