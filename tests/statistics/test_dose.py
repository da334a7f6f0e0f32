from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envharness.core.seeding import stream
from envharness.statistics import curves
from envharness.statistics.dose import GRID, Dose, DoseBelief, Trial

BAND = (0.4, 0.6)
EIGHTHS = tuple(step / 8 for step in range(1, 9))
FEW = settings(max_examples=10, deadline=None)

counts = st.integers(0, 15).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
trials = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(EIGHTHS), counts).map(lambda t: Trial(t[0], t[1], *t[2])),
    max_size=8,
)


def test_the_prior_is_a_distribution_over_falling_curves() -> None:
    assert curves.shape_weights().sum() == pytest.approx(1.0)
    assert curves.baseline_weights().sum() == pytest.approx(1.0)
    table = np.stack([curves.shapes(m) for m in (0.0, *GRID)])
    assert table.shape == (65, len(curves.shape_weights()))
    assert np.all(table[0] == 1.0)
    assert np.all(np.diff(table, axis=0) <= 1e-12)
    assert np.all(table >= 0.0)


@FEW
@given(trials, counts, st.booleans())
def test_masses_are_probabilities_and_the_bands_of_a_partition_add_up(
    seen: list[Trial], baseline: tuple[int, int], falling: bool
) -> None:
    # The cuts lie between the rates of the curves, so that no rate is in two bands.
    cuts = (0.0, 0.3000371, 0.7000371, 1.0)
    for dose in (Dose("a", 0.25), Dose("unseen", 0.5)):
        parts = [DoseBelief((low, high), falling, baseline, seen).mass(dose) for low, high in pairwise(cuts)]
        assert all(0.0 <= part <= 1.0 for part in parts)
        assert sum(parts) == pytest.approx(1.0, abs=1e-6)


@FEW
@given(trials, counts)
def test_a_type_reaches_the_band_at_least_as_surely_as_its_best_dose_is_in_it(
    seen: list[Trial], baseline: tuple[int, int]
) -> None:
    belief = DoseBelief(BAND, True, baseline, seen)
    for type_ in "abz":
        assert belief.reachable(type_, EIGHTHS) >= max(belief.masses(type_, EIGHTHS)) - 1e-8
        assert belief.reachable(type_, GRID) >= belief.reachable(type_, EIGHTHS) - 1e-8


@FEW
@given(trials, counts, st.randoms(use_true_random=False))
def test_neither_order_nor_grouping_of_rollouts_matters(
    seen: list[Trial], baseline: tuple[int, int], shuffle: object
) -> None:
    single = [
        Trial(t.type, t.magnitude, int(number < t.successes), 1) for t in reversed(seen) for number in range(t.trials)
    ]
    one, other = DoseBelief(BAND, True, baseline, seen), DoseBelief(BAND, True, baseline, single)
    assert one.masses("a", EIGHTHS) == pytest.approx(other.masses("a", EIGHTHS), abs=1e-8)
    assert one.rate(Dose("b", 0.5)).mean == pytest.approx(other.rate(Dose("b", 0.5)).mean, abs=1e-8)


@FEW
@given(trials, counts)
def test_a_scaffold_is_the_mirror_of_an_obstacle(seen: list[Trial], baseline: tuple[int, int]) -> None:
    turned = [Trial(t.type, t.magnitude, t.trials - t.successes, t.trials) for t in seen]
    obstacle = DoseBelief((0.4, 0.7), True, baseline, seen)
    scaffold = DoseBelief((0.3, 0.6), False, (baseline[1] - baseline[0], baseline[1]), turned)
    assert scaffold.masses("a", EIGHTHS) == pytest.approx(obstacle.masses("a", EIGHTHS), abs=1e-8)
    assert scaffold.best("abc", EIGHTHS) == obstacle.best("abc", EIGHTHS)
    fall, rise = obstacle.rate(Dose("b", 0.5)), scaffold.rate(Dose("b", 0.5))
    assert rise.mean == pytest.approx(1 - fall.mean, abs=1e-9)


@FEW
@given(trials, counts, st.booleans())
def test_expected_rates_are_monotone_and_within_their_interval(
    seen: list[Trial], baseline: tuple[int, int], falling: bool
) -> None:
    belief = DoseBelief(BAND, falling, baseline, seen)
    estimates = [belief.rate(Dose("a", magnitude)) for magnitude in (0.0, *EIGHTHS)]
    assert all(0.0 <= e.low <= e.mean <= e.high <= 1.0 for e in estimates)
    steps = [later.mean - earlier.mean for earlier, later in pairwise(estimates)]
    assert all(step <= 1e-9 if falling else step >= -1e-9 for step in steps)


def test_wins_say_that_more_is_needed_and_losses_that_less_is() -> None:
    def best_after(won: int) -> float:
        dose = DoseBelief(BAND, True, (5, 5), [Trial("a", 0.5, won, 10)]).best(["a"])
        assert dose is not None
        return dose.magnitude

    assert best_after(0) < 0.5 < best_after(10)
    assert best_after(5) == pytest.approx(0.5, abs=1 / 32)


def test_rollouts_at_other_magnitudes_count() -> None:
    here = [Trial("a", 0.5, 5, 10)]
    around = [*here, Trial("a", 0.4375, 6, 10), Trial("a", 0.5625, 4, 10)]
    alone, together = (DoseBelief(BAND, True, (5, 5), seen).mass(Dose("a", 0.5)) for seen in (here, around))
    assert together > alone + 0.1


def test_types_are_coupled_through_the_baseline_alone() -> None:
    quiet = DoseBelief(BAND, True, (0, 0))
    # Wins at a high magnitude of one type say that the baseline is high, for all types.
    taught = DoseBelief(BAND, True, (0, 0), [Trial("a", 1.0, 20, 20)])
    assert taught.rate(Dose("b", 0.0)).mean > quiet.rate(Dose("b", 0.0)).mean + 0.1
    certain = DoseBelief(BAND, True, (500, 1000))
    also = DoseBelief(BAND, True, (500, 1000), [Trial("a", 1.0, 0, 20)])
    assert also.mass(Dose("b", 0.5)) == pytest.approx(certain.mass(Dose("b", 0.5)), abs=1e-6)


def test_a_flat_response_is_given_up() -> None:
    belief = DoseBelief(BAND, True, (10, 10), [Trial("a", 1.0, 30, 30)])
    assert belief.reachable("a") < 0.04
    assert belief.reachable("b") > 0.5


def test_of_equals_the_one_named_first_is_chosen() -> None:
    belief = DoseBelief(BAND, True, (5, 5))
    first = belief.best(["b", "a"])
    assert first is not None
    assert first.type == "b"
    assert belief.best([]) is None
    assert belief.best(["a"], {"b": (0.5,)}) is None
    assert belief.best(["a", "b"], {"a": (), "b": (0.25,)}) == Dose("b", 0.25)


def test_a_sure_baseline_survives_one_odd_episode() -> None:
    belief = DoseBelief(BAND, True, (199, 200), [Trial("a", 1.0, 0, 40), Trial("b", 0.25, 20, 20)])
    assert belief.rate(Dose("a", 0.0)).mean > 0.9
    assert all(0.0 <= mass <= 1.0 for mass in belief.masses("a", GRID))


@pytest.mark.parametrize(("magnitude", "won", "played"), [(1.5, 1, 2), (-0.1, 1, 2), (0.5, 3, 2), (0.5, -1, 2)])
def test_impossible_trials_are_refused(magnitude: float, won: int, played: int) -> None:
    with pytest.raises(ValueError, match="give"):
        Trial("a", magnitude, won, played)


def test_a_band_the_wrong_way_round_is_refused() -> None:
    with pytest.raises(ValueError, match="band"):
        DoseBelief((0.6, 0.4), True, (5, 5))


@pytest.mark.slow
def test_the_belief_is_calibrated_on_curves_from_its_own_prior() -> None:
    # 300 curves drawn from the prior, two batches of five each at doses the belief did not choose.
    draws = np.random.default_rng(7)
    shapes, weights = len(curves.shape_weights()), curves.shape_weights()
    claimed, true = 0.0, 0
    for _ in range(300):
        row = draws.choice(len(curves.BASELINES), p=curves.baseline_weights())
        column = draws.choice(shapes, p=weights)
        truth = {m: float(curves.rates(m)[row, column]) for m in (0.0, *EIGHTHS)}
        played = [Trial("a", m, int(draws.binomial(5, truth[m])), 5) for m in (0.25, 0.625)]
        wins = int(draws.binomial(5, truth[0.0]))
        belief = DoseBelief(BAND, True, (wins, 5), played)
        dose = belief.best(["a"], EIGHTHS)
        assert dose is not None
        claimed += belief.mass(dose)
        true += int(BAND[0] <= truth[dose.magnitude] <= BAND[1])
    # Three standard errors of 300 draws.
    assert true / 300 == pytest.approx(claimed / 300, abs=0.085)


def test_the_curves_stay_the_same() -> None:
    # A belief that is worked out again on resume must be the same one: these two pin the stream and the formula.
    assert curves._falls()[0][0] == stream(0, "statistics.curves").random()
    assert curves.shapes(0.5).sum() == pytest.approx(842.8322731, abs=1e-6)
