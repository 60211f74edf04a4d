"""tools/shares.py finds a room that holds too much, and counts all lines of a room."""

from pathlib import Path

import pytest

from tools import shares


@pytest.mark.parametrize(("lines", "is_found"), [(12, False), (13, True)])
def test_a_room_above_its_share_is_named_and_one_at_it_is_not(lines: int, is_found: bool) -> None:
    rooms = {f"room{number}": 8 for number in range(11)}
    found = list(shares.above({**rooms, "large": lines}))
    assert [sentence.partition(":")[0] for sentence in found] == ["src/penstock/large"] * is_found


def test_lines_of_packages_within_a_room_are_the_rooms(tmp_path: Path) -> None:
    for place in ("net", "net/answers", "raft"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "__init__.py").write_text("one\ntwo\n")
    (tmp_path / "net" / "peer.py").write_text("one\n")
    (tmp_path / "net" / "_fast.pyx").write_text("one\n" * 9)
    (tmp_path / "top.py").write_text("one\n")
    assert shares.lines_by_room(tmp_path) == {"net": 5, "raft": 2}


def test_the_exit_code_says_whether_a_room_holds_too_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "src" / "penstock"
    for number in range(9):
        (source / f"room{number}").mkdir(parents=True)
        (source / f"room{number}" / "__init__.py").write_text("one\n")
    assert shares.main([str(tmp_path)]) == 0
    (source / "room3" / "__init__.py").write_text("one\n" * 3)
    assert shares.main([str(tmp_path)]) == 1
    assert "src/penstock/room3: 27.3 % of the lines, at most 12 %" in capsys.readouterr().out
