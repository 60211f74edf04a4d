"""What every Disk must do: the real one, the one in memory, and whatever a simulation brings."""

import pytest

from penstock.base.ports import Disk


class DiskContract:
    """Inherit, and give a fixture `disk` that returns an empty disk."""

    def test_what_was_written_is_read_at_its_position(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        assert file.write(0, [b"hello ", bytearray(b"wide"), memoryview(b" world")]) == 16
        assert file.write(6, [b"WIDE"]) == 4
        assert bytes(file.read(0, 16)) == b"hello WIDE world"
        assert bytes(file.read(6, 4)) == b"WIDE"
        assert file.size() == 16

    def test_a_write_of_more_buffers_than_one_call_takes_is_whole(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        buffers = [bytes([number % 256]) * 3 for number in range(3000)]
        assert file.write(5, buffers) == 9000
        assert bytes(file.read(5, 9000)) == b"".join(buffers)

    def test_a_read_behind_the_end_is_short(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write(0, [b"abc"])
        assert bytes(file.read(1, 100)) == b"bc"
        assert bytes(file.read(50, 100)) == b""
        cached = file.read_cached(1, 100)
        assert cached is None or bytes(cached) == b"bc"

    def test_a_cached_read_gives_what_was_just_written_or_says_that_it_can_not(
        self, disk: Disk
    ) -> None:
        file = disk.open("a", create=True)
        data = bytes(range(256)) * 4096
        file.write(0, [data])
        for position, length in ((0, 10), (1000, 200_000), (0, len(data)), (7, 1)):
            cached = file.read_cached(position, length)
            assert cached is None or bytes(cached) == data[position : position + length]

    def test_many_places_are_read_as_each_of_them_would_be(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        data = bytes(range(256)) * 16_384
        file.write(0, [data])
        places = [(at * 65_537 % len(data), 1 + at * 1000) for at in range(200)]
        places += [(0, 3 << 20), (5, 0), (len(data) - 10, 100), (len(data) + 7, 5)]
        found = file.gather_cached(places)
        expected = [data[position : position + length] for position, length in places[: len(found)]]
        assert found or file.read_cached(*places[0]) is None
        assert [bytes(view) for view in found] == expected
        assert file.gather_cached([]) == []

    def test_views_of_cached_reads_stay_as_they_were_read(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write(0, [b"".join(bytes([number]) * 200_000 for number in range(40))])
        views = [file.read_cached(number * 200_000, 200_000) for number in range(40)]
        for number, view in enumerate(views):
            assert view is None or bytes(view) == bytes([number]) * 200_000

    def test_allocated_bytes_are_zero_and_content_stays(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write(0, [b"abc"])
        file.allocate(10_000)
        assert file.size() == 10_000
        assert bytes(file.read(0, 10_000)) == b"abc" + bytes(9997)
        file.allocate(10)
        assert file.size() == 10_000

    def test_only_zeros_lie_outside_of_the_data_ranges(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.allocate(1 << 20)
        file.write(5_000, [b"x"])
        file.write(900_000, [b"y" * 100_000])
        for position in (0, 5_001, 950_000):
            left = position
            ranges = file.data_ranges(position)
            for start, end in [*ranges, (1 << 20, 1 << 20)]:
                assert start >= left
                assert not any(file.read(left, start - left))
                left = end

    def test_truncated_bytes_do_not_come_back(self, disk: Disk) -> None:
        file = disk.open("a", create=True)
        file.write(0, [b"x" * 5000])
        file.truncate(100)
        assert file.size() == 100
        file.allocate(5000)
        assert bytes(file.read(0, 5000)) == b"x" * 100 + bytes(4900)
        file.sync()

    def test_a_file_that_is_not_there_is_only_made_when_asked(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("nothing")
        disk.open("nothing", create=True).close()
        disk.open("nothing").close()

    def test_names_are_listed_in_order_and_per_directory(self, disk: Disk) -> None:
        assert disk.list("some/where") == []
        disk.make_directory("some/where")
        disk.make_directory("some/where")
        for name in ("c", "a", "b"):
            disk.open(f"some/where/{name}", create=True).close()
        assert disk.list("some/where") == ["a", "b", "c"]

    def test_directories_are_told_apart_from_files(self, disk: Disk) -> None:
        assert list(disk.directories("")) == []
        assert list(disk.directories("nowhere")) == []
        disk.make_directory("b/inner")
        disk.make_directory("a")
        disk.replace("c", b"a file")
        disk.replace("b/d", b"a file")
        assert list(disk.directories("")) == ["a", "b"]
        assert list(disk.directories("b")) == ["inner"]
        assert disk.list("") == ["a", "b", "c"]
        assert disk.list("b") == ["d", "inner"]

    def test_a_file_is_not_made_in_a_directory_that_is_absent(self, disk: Disk) -> None:
        with pytest.raises(FileNotFoundError):
            disk.open("nowhere/a", create=True)
        with pytest.raises(FileNotFoundError):
            disk.replace("nowhere/a", b"one")
        assert disk.list("nowhere") == []

    def test_a_rename_into_another_directory_leaves_nothing_behind(self, disk: Disk) -> None:
        disk.make_directory("d")
        disk.make_directory("e")
        disk.replace("d/a", b"one")
        disk.rename("d/a", "e/b")
        assert (disk.list("d"), disk.list("e")) == ([], ["b"])
        with pytest.raises(FileNotFoundError):
            disk.rename("d/a", "e/c")

    def test_replace_puts_new_content_in_the_place_of_old(self, disk: Disk) -> None:
        disk.make_directory("d")
        disk.replace("d/a", b"one")
        old = disk.open("d/a")
        disk.replace("d/a", memoryview(b"two and more"))
        assert bytes(disk.open("d/a").read(0, 100)) == b"two and more"
        assert bytes(old.read(0, 100)) == b"one"
        assert disk.list("d") == ["a"]

    def test_rename_takes_the_place_of_the_target(self, disk: Disk) -> None:
        disk.make_directory("d")
        disk.replace("d/a", b"one")
        disk.replace("d/b", b"two")
        held = disk.open("d/a")
        disk.rename("d/a", "d/b")
        assert disk.list("d") == ["b"]
        assert bytes(disk.open("d/b").read(0, 10)) == b"one"
        held.write(0, [b"ONE"])
        assert bytes(disk.open("d/b").read(0, 10)) == b"ONE"

    def test_remove_is_fine_for_an_absent_file_and_leaves_open_handles_usable(
        self, disk: Disk
    ) -> None:
        disk.make_directory("d")
        disk.remove("d/a")
        disk.replace("d/a", b"one")
        held = disk.open("d/a")
        disk.remove("d/a")
        disk.sync_directory("d")
        assert disk.list("d") == []
        assert bytes(held.read(0, 10)) == b"one"

    def test_free_bytes_are_positive(self, disk: Disk) -> None:
        assert disk.free_bytes() > 0
