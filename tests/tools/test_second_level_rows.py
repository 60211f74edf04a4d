"""The rows of cleaning and of object stores: what they take for clean, and how they know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.parts import second_level
from benchmarks.parts.keys import KEY_BYTES, key_number, key_of
from benchmarks.parts.native import LoadFailed
from benchmarks.parts.processes import children_of, io_bytes
from benchmarks.parts.second_level import NotCleaned, wait_clean
from benchmarks.peers.model import CanNotRun, Spec
from benchmarks.peers.rows import all_groups
from benchmarks.peers.second_level import KafkaProgress, cleaned_offset, kafka_lines
from benchmarks.peers.second_level_probes import check_clean
from benchmarks.peers.second_level_rows import groups
from benchmarks.peers.servers import StubServer

QUESTIONS = {question.name: question for group in groups() for question in group.questions}
KEYS = 3
KEYS_WRITTEN = [key_of(offset, KEYS) for offset in range(12)]


def newest(end_offset: int) -> dict[bytes, int]:
    return {key: offset for offset, key in enumerate(KEYS_WRITTEN[:end_offset])}


def left(end_offset: int) -> list[tuple[int, bytes]]:
    """What a cleaner leaves that went up to an offset, and what was written after it."""
    kept = {offset: key for key, offset in newest(end_offset).items()}
    return sorted(kept.items()) + list(enumerate(KEYS_WRITTEN))[end_offset:]


def test_keys_are_those_of_the_published_generator() -> None:
    # The first two outputs of splitmix64 with seed 0.
    assert key_number(0, 1 << 64) == 0xE220A8397B1DCDAF
    assert key_number(1, 1 << 64) == 0x6E789E6AA1B965F4
    assert key_of(0, 1_000) == b"%016d" % (0xE220A8397B1DCDAF % 1_000)
    assert len(key_of(5, 10**15)) == KEY_BYTES


@pytest.mark.parametrize("end_offset", [1, 7, 12])
def test_a_log_with_the_newest_record_of_each_key_is_clean(end_offset: int) -> None:
    check_clean(left(end_offset), 12, KEYS, end_offset)


def test_a_log_that_nobody_has_cleaned_is_not() -> None:
    with pytest.raises(LoadFailed, match="9 old records are left"):
        check_clean(enumerate(KEYS_WRITTEN), 12, KEYS, 12)


@pytest.mark.parametrize("lost", range(3))
def test_a_log_without_the_newest_record_of_a_key_has_lost_it(lost: int) -> None:
    records = left(12)
    del records[lost]
    with pytest.raises(LoadFailed, match="1 of 3 keys"):
        check_clean(records, 12, KEYS, 12)


def test_a_record_that_has_another_key_is_none_of_the_lost_one() -> None:
    (offset, _), *others = left(12)
    with pytest.raises(LoadFailed, match="1 of 3 keys"):
        check_clean([(offset, b"another"), *others], 12, KEYS, 12)


CHECKPOINT = "0\n4\nmap-1 0 5\nmap 1 30\nmap 0 20\nmap 10 40\n"


def test_a_checkpoint_tells_how_far_a_topic_was_cleaned() -> None:
    assert cleaned_offset(CHECKPOINT, "map") == 20
    assert cleaned_offset(CHECKPOINT, "map-1") == 5
    assert cleaned_offset(CHECKPOINT, "ma") == 0
    assert cleaned_offset("0\n0\n", "map") == 0
    assert cleaned_offset("", "map") == 0


def kafka_data(directory: Path, *bases: int) -> Path:
    partition = directory / "map-0"
    partition.mkdir()
    for base in bases:
        (partition / f"{base:020d}.log").touch()
        (partition / f"{base:020d}.index").touch()
    return directory


def test_kafka_is_done_when_all_but_its_last_segment_is_clean(tmp_path: Path) -> None:
    progress = KafkaProgress(kafka_data(tmp_path, 0, 900, 1_800), "map")
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    assert (progress.end_offset, progress.look(), progress.is_done) == (1_800, 0, False)
    for cleaned, is_done in ((900, False), (1_799, False), (1_800, True)):
        checkpoint.write_text(f"0\n1\nmap 0 {cleaned}\n")
        assert not progress.is_done or is_done, "only what was looked at counts"
        assert progress.look() == cleaned
        assert progress.is_done == is_done


def test_a_topic_in_one_open_segment_has_nothing_to_clean(tmp_path: Path) -> None:
    with pytest.raises(CanNotRun, match="no closed segment"):
        KafkaProgress(kafka_data(tmp_path, 0), "map")


class Told:
    """Progress that is as it was told; done at the last."""

    def __init__(self, *looks: float) -> None:
        self.left = list(looks)
        self.present = 0.0
        self.done_at = 0.0

    @property
    def is_done(self) -> bool:
        return not self.left

    def look(self) -> float:
        self.present = self.left.pop(0) if self.left else self.present
        return self.present


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_level, "STILL_SECONDS", 0.0)
    monkeypatch.setattr(second_level, "LOOK_SECONDS", 0.0)


@pytest.mark.usefixtures("no_pauses")
def test_every_change_is_told_and_the_last_one_is_when_it_was_clean() -> None:
    changes: list[str] = []
    wait_clean(Told(0.0, 1.0, 1.0, 2.0), seconds=60, on_change=lambda: changes.append("change"))
    assert changes == ["change", "change"]


@pytest.mark.usefixtures("no_pauses")
def test_what_is_clean_at_the_first_look_was_a_change() -> None:
    changes: list[str] = []
    wait_clean(Told(5.0), seconds=60, on_change=lambda: changes.append("change"))
    assert changes == ["change"]


@pytest.mark.usefixtures("no_pauses")
def test_what_never_is_clean_ends_the_wait() -> None:
    with pytest.raises(NotCleaned, match="not clean after 0 s"):
        wait_clean(Told(1.0, 2.0, 3.0), seconds=0, on_change=lambda: None)


def test_both_sides_of_a_row_clean_or_have_a_store_and_those_of_other_rows_do_not() -> None:
    for name, question in QUESTIONS.items():
        assert {spec.product for spec in question.specs} == {"penstock", "kafka"}
        assert all(spec.has_cleaner == name.startswith("clean-") for spec in question.specs)
        assert all(spec.has_store == name.startswith("tier-") for spec in question.specs)
    others = [one for group in all_groups() for one in group.questions if one.name not in QUESTIONS]
    assert len(others) > 50
    assert not any(spec.has_cleaner or spec.has_store for one in others for spec in one.specs)


def test_rows_have_the_goals_of_the_second_level() -> None:
    kafka = Spec(product="kafka")
    goals = {
        (question.name, figure.key): figure.target_against(kafka, question.ours)
        for question in QUESTIONS.values()
        for figure in question.figures
    }
    assert goals["clean-1k", "MB/s"] == goals["clean-1k-zstd", "MB/s"] == 1.5
    assert goals["clean-1k", "cpu"] == pytest.approx(1 / 0.7, abs=0.01)
    assert goals["tier-catch-up", "MB/s"] == goals["tier-catch-up-10", "MB/s"] == 3.0


def test_kafka_is_told_of_a_store_and_of_small_segments_only_where_rows_need_them(
    tmp_path: Path,
) -> None:
    assert kafka_lines(Spec(product="kafka"), tmp_path) == ()
    cleaner = kafka_lines(Spec(product="kafka", has_cleaner=True), tmp_path)
    store = kafka_lines(Spec(product="kafka", has_store=True), tmp_path)
    assert not any(line.startswith("remote.") for line in cleaner)
    assert f"rsm.config.dir={tmp_path}" in store
    segment = f"log.segment.bytes={second_level.SEGMENT_BYTES}"
    assert segment in cleaner
    assert segment in store


def test_a_server_that_cleans_nothing_says_so() -> None:
    with pytest.raises(CanNotRun, match="cleans nothing"):
        StubServer(Spec(product="stub")).cleaning_of("topic", 1)


def test_children_are_found_whichever_thread_started_them() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.pid in children_of(os.getpid())
        child.kill()
    assert child.pid not in children_of(os.getpid())


def test_what_processes_write_is_counted_for_all_of_them(tmp_path: Path) -> None:
    me = os.getpid()
    before = io_bytes([me], "wchar")
    (tmp_path / "written").write_bytes(b"x" * 100_000)
    after = io_bytes([me], "wchar")
    assert after >= before + 100_000
    assert io_bytes([me, me], "wchar") >= 2 * after
    assert io_bytes([], "wchar") == 0
