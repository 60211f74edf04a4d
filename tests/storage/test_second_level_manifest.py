"""The manifest of a second level, as bytes: what it may say, and what is found of damage."""

import pytest

from penstock.storage.errors import CorruptFile
from penstock.storage.second_level.manifest import (
    Cut,
    FileEntry,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from tests.storage.test_stores import KEY

MANIFEST = Manifest(9, (FileEntry(3, 500, 1), FileEntry(8, 70, 2)), (Cut(*KEY, 77, 5),))


def test_cuts_are_between_the_files_that_they_concern_and_those_they_do_not() -> None:
    first, second = MANIFEST.files
    assert list(MANIFEST.steps()) == [first, *MANIFEST.cuts, second]
    assert list(Manifest(9, (first,), MANIFEST.cuts).steps()) == [first, *MANIFEST.cuts]
    assert MANIFEST.without(frozenset((3,))) == Manifest(9, (second,))
    assert MANIFEST.without(frozenset((8,))) == Manifest(9, (first,), MANIFEST.cuts)


def test_one_flipped_bit_in_any_byte_of_a_manifest_is_found() -> None:
    data = encode_manifest(MANIFEST)
    assert decode_manifest("m", memoryview(data)) == MANIFEST
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 4
        with pytest.raises(CorruptFile):
            decode_manifest("m", memoryview(bytes(changed)))
        with pytest.raises(CorruptFile):
            decode_manifest("m", memoryview(data[:at]))


def test_a_file_in_the_place_of_another_stands_where_that_one_stood() -> None:
    _, second = MANIFEST.files
    new = FileEntry(9, 480, 3)
    replaced = MANIFEST.replaced(3, new)
    (there, *_) = replaced.files
    assert (there.order, there.place) == (3, 4)
    assert replaced.next_number == 10
    assert list(replaced.steps()) == [there, *MANIFEST.cuts, second]
    again = replaced.replaced(9, FileEntry(10, 470, 4))
    assert (again.files[0].order, again.files[0].number) == (3, 10)
    assert again.without(frozenset((10,))).cuts == ()
    assert replaced.without(frozenset((8,))).cuts == MANIFEST.cuts
    data = encode_manifest(replaced)
    assert decode_manifest("m", memoryview(data)) == replaced
    assert (data[5], encode_manifest(MANIFEST)[5]) == (2, 1), "earlier releases refuse it"


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(9, (FileEntry(8, 1, 1), FileEntry(3, 1, 1))),
        Manifest(8, (FileEntry(8, 1, 1),)),
        Manifest(9, (FileEntry(8, 1, 1), FileEntry(8, 1, 1))),
    ],
)
def test_a_manifest_whose_numbers_lie_is_refused(manifest: Manifest) -> None:
    with pytest.raises(CorruptFile, match="next number"):
        decode_manifest("m", memoryview(encode_manifest(manifest)))
