"""Builds the compiled twins of hot Python; without a C compiler the Python itself is used.

Records the commit beside the package, which `penstock --version` says. `penstock/_commit.txt` is
never in a checkout: there git knows.
"""

import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
COMMIT_FILE = "penstock/_commit.txt"
MODULES = (
    "audit/_counts",
    "compaction/_key_map",
    "grpc/consuming/_acks",
    "grpc/consuming/_delivered",
    "record/_batch",
    "record/_columns",
    "record/_encode",
    "record/_picked",
    "record/_plain",
    "record/_record",
    "record/_scan",
    "record/_single_frame",
    "record/_walk",
    "protobuf/_fields",
    "protocol/_fetch",
    "protocol/_produce",
    "runtime/io/_gather",
    "shares/updates/_hand_out",
    "shares/updates/_updates",
    "storage/commit_log/_frames",
    "storage/read/_read_check",
    "storage/read/_regions",
)


def has_compiler() -> bool:
    """Whether C that includes Python's headers can be compiled here; tried with one line of it."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    command = getattr(compiler, "compiler", None) or ["cc"]
    if shutil.which(command[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\n")
        quiet = [*command, "-I", sysconfig.get_path("include"), "-c", str(source)]
        try:
            done = subprocess.run(
                [*quiet, "-o", f"{directory}/probe.o"], capture_output=True, timeout=60, check=False
            )
        except OSError:
            return False
    return done.returncode == 0


def twins() -> list[Extension]:
    """Return what is to be compiled: all of it, or nothing where that can not be done."""
    if importlib.util.find_spec("Cython") is None or not has_compiler():
        return []
    from Cython.Build import cythonize

    made = cythonize(
        [
            Extension(
                f"penstock.{name.replace('/', '.')}",
                [f"src/penstock/{name}.pyx"],
                extra_compile_args=["-O3", "-g0"],
            )
            for name in MODULES
        ],
        language_level=3,
    )
    for extension in made:
        extension.optional = True  # cythonize makes new ones, without what they were given
    return list(made)


def commit() -> str:
    """Return the commit that is built: as git says, else as the source package was made with."""
    if (ROOT / ".git").exists():
        asked = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--abbrev=12"]
        asked.append("--dirty=+changes")
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
        except OSError:
            return ""
        return done.stdout.strip()
    recorded = ROOT / "src" / COMMIT_FILE
    return recorded.read_text().strip() if recorded.exists() else ""


class BuildWithCommit(build_py):
    """Puts the commit into what is built; an editable installation asks git instead."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, COMMIT_FILE).write_text(commit() + "\n")


class SourceWithCommit(sdist):
    """Puts the commit into the source package, which has no git."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        Path(base_dir, "src", COMMIT_FILE).write_text(commit() + "\n")


setup(
    ext_modules=twins(),
    cmdclass={"build_py": BuildWithCommit, "sdist": SourceWithCommit},
)
