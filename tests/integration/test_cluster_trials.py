"""More than one node breaks, or the network does: every promise is kept, replicas end equal.

Longer: `python -m reliability.trials`.
"""

from pathlib import Path

import pytest

from reliability.faults.trials import Trial, cut_off, last_member, no_controllers, power_loss

pytestmark = pytest.mark.process


def check(trial: Trial) -> None:
    assert trial.problems == []
    assert trial.report is not None
    assert trial.report.is_clean()
    assert trial.compared_bytes > 0


def test_no_request_fails_while_all_controllers_are_dead(tmp_path: Path) -> None:
    trial = no_controllers(tmp_path, seconds=15)
    check(trial)
    assert trial.failed == 0


@pytest.mark.parametrize("members", [2, 3])
def test_the_last_member_in_step_takes_over(tmp_path: Path, members: int) -> None:
    trial = last_member(tmp_path, members=members)
    check(trial)
    assert trial.faults == members - 1


@pytest.mark.usefixtures("loop_disks")
def test_all_nodes_lose_their_power_at_once(tmp_path: Path) -> None:
    trial = power_loss(tmp_path, cuts=2)
    check(trial)
    assert trial.faults == 2


def test_a_master_cut_off_with_its_clients_shows_nothing_that_vanishes(tmp_path: Path) -> None:
    trial = cut_off(tmp_path, cuts=1)
    check(trial)
    assert trial.faults == 1
