from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.beta import BetaPosterior
from envharness.statistics.rules import Ruling, dose_finding, empirical, posterior, settled

BAND = (0.4, 0.6)
BetaPosterior(1, 2).interval()
# The first use imports scipy, which no example of a property is to be timed with.

probabilities = st.floats(0, 1)


@given(st.integers(1, 40).flatmap(lambda k: st.tuples(st.integers(0, k), st.integers(0, k), st.just(k))))
def test_the_methods_rule_waits_for_all_and_reads_the_rate(case: tuple[int, int, int]) -> None:
    won, played, rollouts = case[0], case[1], case[2]
    won = min(won, played)
    ruling = empirical(won, played, band=BAND, rollouts=rollouts)
    if played < rollouts:
        assert ruling is Ruling.MORE
    else:
        assert (ruling is Ruling.ACCEPT) == (4 * played <= 10 * won <= 6 * played)


@given(probabilities, st.tuples(probabilities, probabilities).map(sorted), st.booleans())
def test_the_posterior_rule_never_accepts_below_its_threshold(
    probability: float, thresholds: list[float], exhausted: bool
) -> None:
    reject, accept = thresholds
    ruling = posterior(probability, accept=accept, reject=reject, exhausted=exhausted)
    assert (ruling is Ruling.ACCEPT) == (probability >= accept)
    assert (ruling is Ruling.MORE) == (reject <= probability < accept and not exhausted)


@given(probabilities, probabilities, probabilities, st.booleans())
def test_dose_finding_gives_up_only_where_nothing_is_in_reach(
    best: float, reachable: float, accept: float, exhausted: bool
) -> None:
    ruling = dose_finding(best, reachable, accept=accept, give_up=0.04, exhausted=exhausted)
    assert (ruling is Ruling.ACCEPT) == (best >= accept)
    assert (ruling is Ruling.REJECT) == (best < accept and (reachable < 0.04 or exhausted))


def test_thresholds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ValueError, match="reject"):
        posterior(0.5, accept=0.2, reject=0.4, exhausted=False)


def _by_posterior(successes: int, trials: int) -> Ruling:
    mass = BetaPosterior(successes, trials).mass(BAND)
    return posterior(mass, accept=0.6, reject=0.15, exhausted=trials >= 40)


@given(st.integers(0, 30), st.integers(0, 30), st.lists(st.booleans(), min_size=1, max_size=5))
def test_a_settled_batch_ends_as_it_would_have_ended_in_full(won: int, lost: int, batch: list[bool]) -> None:
    full = _by_posterior(won + sum(batch), won + lost + len(batch))
    for played in range(len(batch) + 1):
        seen = won + sum(batch[:played])
        early = settled(seen, won + lost + played, len(batch) - played, _by_posterior)
        assert early in {None, full}


def test_a_hopeless_batch_is_settled_before_it_ends() -> None:
    # After 0 of 9 even a win in the tenth leaves less than 15 % in the band.
    assert _by_posterior(1, 10) is Ruling.REJECT
    assert settled(0, 9, 1, _by_posterior) is Ruling.REJECT
    assert settled(4, 9, 1, _by_posterior) is Ruling.MORE
