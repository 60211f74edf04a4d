"""ARCHITECTURE.md tells the paths hop by hop: the files and names it tells of must be there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
HOPS = re.findall(r"^\| \d+ \| `([a-z_/]+\.py)` `([\w.]+)`", PAGE, re.MULTILINE)


def test_every_hop_names_a_function_that_stands_in_its_file() -> None:
    assert len(HOPS) > 10
    for file, name in HOPS:
        code = (ROOT / "src/penstock" / file).read_text()
        defined = name.rpartition(".")[2]
        assert re.search(rf"(def|class) {defined}\b|self\.{defined} = ", code), (file, name)


def test_every_file_and_room_the_page_names_exists() -> None:
    for file in re.findall(r"`((?:[a-z]+/)+[a-z_]+\.py)`", PAGE):
        assert (ROOT / "src/penstock" / file).exists(), file
    for room in re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE):
        assert (ROOT / "src/penstock" / room / "__init__.py").exists(), room
