"""tools/java.sh on a machine without Java: it takes the version that the distribution offers."""

import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "java.sh"
NEEDED = ("sh", "sed", "head", "env", "id")
# Offers 21 alone; like the real one it does not fail for want of a name that others mention.
APT_GET = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$*" in
*openjdk-17*|*openjdk-25*) echo "E: Package has no installation candidate" >&2; exit 100 ;;
esac
"""


def run_in(directory: Path, **programs: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script with these programs and no others; return what it asked apt-get for."""
    bin_directory, asked = directory / "bin", directory / "asked"
    bin_directory.mkdir()
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (bin_directory / name).symlink_to(found)
    (bin_directory / "python3").symlink_to(Path(sys.executable).resolve())
    for name, text in programs.items():
        program = bin_directory / name.replace("_", "-")
        program.write_text(text)
        program.chmod(0o755)
    done = subprocess.run(
        [SCRIPT],
        env={"PATH": str(bin_directory), "ASKED": str(asked)},
        cwd=SCRIPT.parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, asked.read_text().splitlines() if asked.exists() else []


def test_version_that_is_offered_is_installed_where_an_older_one_is_only_mentioned(
    tmp_path: Path,
) -> None:
    knows_all = "#!/bin/sh\nexit 0\n"
    done, asked = run_in(tmp_path, apt_get=APT_GET, apt_cache=knows_all)
    if "sudo" in done.stderr:  # not root here: it names the package instead
        assert done.returncode == 1
        assert "openjdk-21-jre-headless" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert asked[-1].endswith("install --no-install-recommends openjdk-21-jre-headless")
    assert "-s" not in asked[-1].split()


def test_machine_that_installs_nothing_says_what_is_missing(tmp_path: Path) -> None:
    done, _ = run_in(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("java: Java 17 or later is needed for Spark: sudo apt-get ")


def test_java_that_is_there_is_taken(tmp_path: Path) -> None:
    java = "#!/bin/sh\necho 'openjdk version \"21.0.1\" 2025-01-01' >&2\n"
    done, asked = run_in(tmp_path, java=java, apt_get=APT_GET)
    assert done.returncode == 0
    assert asked == []


def test_java_that_is_too_old_is_not(tmp_path: Path) -> None:
    java = "#!/bin/sh\necho 'openjdk version \"11.0.1\" 2018-01-01' >&2\n"
    done, _ = run_in(tmp_path, java=java)
    assert done.returncode == 1
