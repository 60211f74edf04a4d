"""What `penstock --version` says of a checkout, of a package, and without compiled functions."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.node.pages import build_info

ROOT = Path(__file__).resolve().parents[2]


def resources_at(monkeypatch, package):
    """Let this module find its files elsewhere; others, which it imports meanwhile, need theirs."""
    monkeypatch.setattr(build_info, "resources", SimpleNamespace(files=lambda _: package))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an archive of the source has no git")
def test_a_checkout_names_the_commit_that_git_knows():
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    named = build_info.commit()
    assert len(named) >= 12
    assert head.startswith(named.removesuffix("+changes"))


def test_a_checkout_with_a_release_tag_names_the_commit_all_the_same(monkeypatch, tmp_path):
    package = tmp_path / "src" / "penstock"
    package.mkdir(parents=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "tag", "-a", "v1", "-m", "release"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    resources_at(monkeypatch, package)
    assert build_info.commit() == head.stdout[:12]


def test_an_installed_package_names_the_commit_it_was_built_from(monkeypatch, tmp_path):
    (tmp_path / "_commit.txt").write_text("0123456789ab\n")
    resources_at(monkeypatch, tmp_path)
    assert build_info.commit() == "0123456789ab"
    assert "(commit 0123456789ab, " in build_info.version_line()


def test_a_package_without_a_record_has_an_unknown_commit(monkeypatch, tmp_path):
    package = tmp_path / "src" / "penstock"
    package.mkdir(parents=True)
    resources_at(monkeypatch, package)
    assert "(commit unknown, " in build_info.version_line()


def test_twins_that_can_not_be_imported_are_named(monkeypatch):
    for name in build_info.TWINS:
        monkeypatch.setitem(sys.modules, name, None)
    assert build_info.interpreted() == list(build_info.TWINS)
    assert build_info.compiled_text() == "interpreted"
    for name in build_info.TWINS[1:]:
        monkeypatch.setitem(sys.modules, name, object())
    assert build_info.compiled_text() == f"without {build_info.TWINS[0]}"


def test_every_twin_in_the_tree_is_known():
    package = ROOT / "src"
    found = sorted(
        ".".join(path.relative_to(package).with_suffix("").parts)
        for path in package.glob("penstock/**/_*.pyx")
    )
    assert found == sorted(build_info.TWINS)
    assert all(name.split(".")[-1] in (ROOT / "setup.py").read_text() for name in found)


@pytest.mark.skipif(bool(build_info.interpreted()), reason="without compiled functions")
@pytest.mark.parametrize("twin", build_info.TWINS)
def test_a_twin_that_is_imported_before_its_module_is_used_by_it(twin):
    used = (
        "from penstock.record import single_frame as one, walk; print(one.COMPILED, walk.COMPILED)"
    )
    told = subprocess.run(
        [sys.executable, "-c", f"import {twin}\n{used}"], capture_output=True, text=True, check=True
    )
    assert "None" not in told.stdout
