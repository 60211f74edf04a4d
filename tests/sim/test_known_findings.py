"""What a seed is known for is no news; anything else of it is, and so is the same of another."""

from penstock.sim.known_findings import KNOWN, broken

SEED, TEXTS = next(iter(KNOWN.items()))
FINDINGS = [f"before {text} behind" for text in TEXTS]


def test_what_a_seed_is_known_for_breaks_nothing() -> None:
    assert broken([(SEED, FINDINGS)]) == []


def test_anything_else_breaks() -> None:
    assert broken([(SEED, [*FINDINGS, "lost"])]) == [SEED]
    assert broken([(SEED + 1, FINDINGS)]) == [SEED + 1]
    assert broken([(SEED, [])]) == []
