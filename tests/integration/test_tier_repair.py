"""`penstock tier repair` of a store beside a running node: nothing that is needed is deleted."""

import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from harness.node import NodeProcess
from harness.workload import create_topic
from tests.integration.layouts import run_penstock
from tests.integration.test_tier import (
    COUNT,
    TOPIC,
    Directory,
    has_deleted,
    is_copied,
    numbers_read,
    produce,
    settings,
    until,
)

pytestmark = pytest.mark.process

OLD_SECONDS = 3_600


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "store")


@pytest.fixture
def node(store: Directory, tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node", settings=settings(store.url)) as node:
        create_topic(node.bootstrap, TOPIC, 1, {"remote.storage.enable": "true"})
        produce(node, TOPIC, 0, COUNT)
        until(partial(is_copied, node), node)
        yield node


def repaired(node: NodeProcess, *more: str) -> tuple[int, str]:
    own = ["--config", str(node.config), *more, "-o", "json"]
    return run_penstock("tier", "repair", *own)


def age(path: Path) -> Path:
    """Let the store say that a file is old."""
    then = time.time() - OLD_SECONDS
    os.utime(path, (then, then))
    return path


def test_a_store_in_order_is_told_to_be_so(node: NodeProcess, store: Directory) -> None:
    before = store.objects()
    for path in before:
        age(path)
    assert repaired(node, "--delete") == (0, "[]\n")
    assert set(before) <= set(store.objects())  # what is closed meanwhile is copied, too


def test_probes_are_shown_first_and_deleted_when_told(node: NodeProcess, store: Directory) -> None:
    live = set(store.objects())
    probes = next(store.path.iterdir()) / "probes"
    probes.mkdir(exist_ok=True)
    old, young = probes / ("0a" * 8), probes / ("0b" * 8)
    for probe in (old, young):
        probe.write_bytes(b"first")
    age(old)
    code, text = repaired(node)
    assert (code, "1 may go: run it again" in text, old.exists()) == (0, True, True)
    code, text = repaired(node, "--delete")
    assert (code, '"deleted"' in text) == (0, True)
    assert (old.exists(), young.exists()) == (False, True)
    assert live <= set(store.objects())
    assert numbers_read(node) == [str(number) for number in range(COUNT)]


def test_a_put_that_lands_behind_its_delete_goes_once_it_is_old(
    node: NodeProcess, store: Directory, tmp_path: Path
) -> None:
    late = sorted(store.objects())[0]
    shutil.copy(late, tmp_path / "under-way")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result()
    until(partial(has_deleted, node), node)
    assert not store.objects()
    shutil.copy(tmp_path / "under-way", late)
    code, text = repaired(node, "--delete")
    assert (code, "younger than the grace" in text, late.exists()) == (0, True, True)
    age(late)
    code, text = repaired(node, "--delete")
    assert (code, "nobody needs it" in text, late.exists()) == (0, True, False)


def test_a_missing_object_is_named_with_its_offsets(node: NodeProcess, store: Directory) -> None:
    lost = sorted(store.objects())[0]
    lost.unlink()
    code, text = repaired(node, "--delete")
    assert code == 1
    assert str(lost.relative_to(store.path)) in text
    assert "should have offsets 0 to " in text
    assert "1 objects that the cluster counts on" in text


def test_what_may_still_be_under_way_is_never_asked_to_go(node: NodeProcess) -> None:
    code, text = repaired(node, "--older-than", "5")
    assert (code, "at least 6 s" in text) == (2, True)
