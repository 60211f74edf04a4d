"""Modules are loaded without collections of garbage between: each would look through them all."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.launch.loading import loading

COUNTING = """
import gc, sys
from penstock.cli.main import run

found = {name: 0 for name in %r}

def note(phase, _info):
    for name in found:
        module = sys.modules.get(name)
        if phase == "start" and module is not None and module.__spec__._initializing:
            found[name] += 1

gc.callbacks.append(note)
try:
    run(sys.argv[1:])
finally:
    print(gc.isenabled(), [name in sys.modules for name in found], [*found.values()])
"""
"""Counts the collections that begin while a module, or what it imports, is being loaded."""


@pytest.mark.parametrize("role", ["node", "controller"])
def test_nothing_is_collected_while_a_process_loads_what_it_runs(tmp_path: Path, role: str) -> None:
    no_directory = tmp_path / "file"
    no_directory.touch()
    names = ["penstock.cli.program", "penstock.node.settings.settings", "penstock.node.main"]
    given = ["--set", f"node.data_directories={no_directory}", "--config", "/dev/null"]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING % (names,), role, *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == "True [True, True, True] [0, 0, 0]\n"


@pytest.fixture
def _as_before():
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count()
    yield
    (gc.enable if was_enabled else gc.disable)()
    if not was_frozen:
        gc.unfreeze()


@pytest.mark.usefixtures("_as_before")
def test_what_was_loaded_is_left_out_of_later_collections_and_what_comes_then_is_not() -> None:
    class Cycle:
        pass

    with loading():
        assert not gc.isenabled()
        loaded = [Cycle()]
        frozen = gc.get_freeze_count()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    later = [Cycle()]
    looked_through = {id(one) for one in gc.get_objects()}
    assert id(later) in looked_through
    assert id(loaded) not in looked_through


@pytest.mark.usefixtures("_as_before")
def test_a_module_that_can_not_be_loaded_leaves_collections_as_they_were() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
    gc.disable()
    with loading():
        pass
    assert not gc.isenabled()
