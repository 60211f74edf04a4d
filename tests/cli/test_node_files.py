import tomllib

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.launch.node_files import BoundedLog, settings_toml, write_whole

values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
)
keys = st.text("abcdefgh_", min_size=1, max_size=5)


@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=4), max_size=4))
def test_a_toml_reader_gets_back_what_was_written(sections):
    assert tomllib.loads(settings_toml(sections)) == sections


def test_a_file_is_replaced_whole(tmp_path):
    for text in ("one\n", "two\n"):
        write_whole(tmp_path / "pid", text)
        assert (tmp_path / "pid").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]


def test_a_log_keeps_two_files_of_bounded_size(tmp_path):
    log = BoundedLog(tmp_path / "node.log", bytes_max=100)
    for number in range(100):
        log.write(b"%09d\n" % number)
    log.close()
    older, newer = (tmp_path / "node.log.1").read_bytes(), (tmp_path / "node.log").read_bytes()
    assert len(older) == 100
    assert 0 < len(newer) <= 100
    assert newer.endswith(b"000000099\n")
    assert int(newer[:9]) == int(older[-10:]) + 1


def test_a_log_goes_on_where_the_last_run_ended(tmp_path):
    for _ in range(2):
        log = BoundedLog(tmp_path / "node.log", bytes_max=100)
        log.write(b"line\n")
        log.close()
    assert (tmp_path / "node.log").read_bytes() == b"line\n" * 2
