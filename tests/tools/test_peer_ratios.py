"""What becomes of measured rounds: ratios, targets and verdicts."""

import pytest

from benchmarks.peers.model import FSYNC, SMOKE, Figure, Group, Question, Spec
from benchmarks.peers.ratios import Row, Samples, growth_rows, ratio_of, rotated, rows_of
from benchmarks.peers.rounds import ask_group

OURS, KAFKA, STUB = (Spec(product=one) for one in ("penstock", "kafka", "stub"))
SPEED = Figure(key="MB/s", unit="MB/s", is_more_better=True, targets={"*": 1.5})
CPU = Figure(key="cpu", unit="CPU s/GB", is_more_better=False, targets={"kafka": 2.0}, limit=1.1)


def _question(*figures: Figure, peers: tuple[Spec, ...] = (KAFKA,)) -> Question:
    return Question(name="row", ask=lambda *_: {}, figures=figures, ours=OURS, peers=peers)


def _samples(ours: list[float], peer: list[float], key: str = "MB/s") -> Samples:
    samples = Samples()
    for spec, values in ((OURS, ours), (KAFKA, peer)):
        for turn, value in enumerate(values):
            samples.add(spec, turn, {key: value})
    return samples


def test_a_ratio_above_one_means_ahead_also_where_less_is_better() -> None:
    assert ratio_of(300.0, 100.0, is_more_better=True) == 3.0
    assert ratio_of(100.0, 300.0, is_more_better=False) == 3.0
    assert ratio_of(0.0, 300.0, is_more_better=False) is None


def test_the_ratio_is_the_median_of_those_within_rounds_and_not_that_of_the_medians() -> None:
    # The second round was slow for both: 100/10, 10/5, 100/40 have the median 2.5.
    (row,) = rows_of(_question(SPEED), _samples([100.0, 10.0, 100.0], [10.0, 5.0, 40.0]))
    assert (row["ratio"], row["spread"], row["rounds"]) == (2.5, [2.0, 10.0], 3)
    assert (row["ours"], row["peer"], row["met"]) == (100.0, 10.0, True)


def test_only_rounds_that_both_sides_ran_make_a_ratio() -> None:
    samples = _samples([10.0, 1_000.0], [5.0])
    samples.reasons[KAFKA] = "it went away"
    (row,) = rows_of(_question(SPEED), samples)
    assert (row["ratio"], row["rounds"]) == (2.0, 1)
    assert row["reason"] == "not in all rounds: it went away"


def test_a_row_whose_peer_can_not_run_says_why_and_keeps_our_value() -> None:
    samples = _samples([10.0], [])
    samples.reasons[KAFKA] = "java is not installed"
    (row,) = rows_of(_question(SPEED), samples)
    assert (row["ours"], row["ratio"], row["met"]) == (10.0, None, None)
    assert row["reason"] == "java is not installed"


def test_a_figure_that_a_peer_does_not_show_is_a_reason_too() -> None:
    (_, row) = rows_of(_question(SPEED, CPU), _samples([10.0], [10.0]))
    assert (row["name"], row["reason"]) == ("row.cpu", "kafka does not show cpu")


@pytest.mark.parametrize(
    ("ours", "peer", "met"), [(1.0, 2.0, True), (1.0, 1.9, False), (1.2, 9.0, False)]
)
def test_a_row_has_to_reach_its_ratio_and_its_own_limit(
    ours: float, peer: float, met: bool
) -> None:
    (row,) = rows_of(_question(CPU), _samples([ours], [peer], "cpu"))
    assert row["met"] is met


def test_a_peer_at_another_durability_has_a_target_of_its_own() -> None:
    figure = Figure(
        key="MB/s", unit="MB/s", is_more_better=True, targets={"kafka": 2, "kafka page cache": 1}
    )
    ours = Spec(product="penstock", nodes=3, durable_in=FSYNC)
    equal = Spec(product="kafka", nodes=3, durable_in=FSYNC)
    lesser = Spec(product="kafka", nodes=3)
    assert figure.target_against(equal, ours) == 2
    assert figure.target_against(lesser, ours) == 1
    assert figure.target_against(STUB, ours) is None


def _failover(name: str, ours: float | None, peer: float | None) -> Row:
    return {"name": name, "peer_is": KAFKA.label, "ours": ours, "peer": peer, "better": "less"}


def test_growth_is_what_many_partitions_add_to_a_failover() -> None:
    few, many = _failover("failover-10", 1.0, 10.0), _failover("failover-10000", 1.5, 40.0)
    (row,) = growth_rows([few, many])
    assert (row["ours"], row["peer"], row["met"]) == (1.5, 4.0, False)
    assert row["ratio"] == pytest.approx(4.0 / 1.5)


def test_growth_needs_both_rows() -> None:
    assert growth_rows([_failover("failover-10000", 1.5, 40.0)]) == []
    assert (
        growth_rows([_failover("failover-10", None, 1.0), _failover("failover-10000", 1, 1)]) == []
    )


def test_another_server_goes_first_in_each_round() -> None:
    assert [rotated("abc", turn)[0] for turn in range(4)] == ["a", "b", "c", "a"]
    assert rotated("abc", 1) == ["b", "c", "a"]
    assert rotated([], 3) == []


def test_a_server_that_can_not_be_started_is_left_out_with_its_reason() -> None:
    unknown = Spec(product="nothing")
    question = Question(
        name="row",
        ask=lambda *_: {},
        figures=(SPEED,),
        ours=unknown,
        peers=(KAFKA,),
        unfit={"kafka": "it is not asked"},
    )
    group = Group(name="group", questions=(question,))
    said: list[str] = []
    found = ask_group(group, [question], SMOKE, rounds=2, say=said.append)
    assert found["row"].reasons[KAFKA] == "it is not asked"
    assert "no server" in found["row"].reasons[unknown]
    assert len(said) == 1  # it is not tried again
