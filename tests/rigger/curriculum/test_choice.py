from __future__ import annotations

import random
from collections import Counter
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.errors import ConfigError
from envharness.core.spec import StackSpec
from envharness.rigger.curriculum.choice import Retirement, Sampling, chances, sample, to_remeasure
from envharness.rigger.curriculum.levels import Level, LevelOutcome, Lineage
from envharness.rigger.curriculum.worth import worth_of
from envharness.rollouts.job import Limits

LINEAGE = Lineage(flaw="one_path", direction="harden", designer="template", policy="v1", run="r")


def level(name: str, *outcomes: tuple[int, int, int], retired: str = "") -> Level:
    """Make a level; outcomes are (round, successes, trials)."""
    return Level(
        task=name,
        stack=StackSpec.environment("toy24", task=name),
        env_seed=1,
        limits=Limits(),
        lineage=LINEAGE,
        outcomes=tuple(
            LevelOutcome(policy="v1", round=number, source=str(place), successes=won, trials=trials)
            for place, (number, won, trials) in enumerate(outcomes)
        ),
        retired=retired,
    )


levels = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(20, 40), st.booleans()), min_size=1, max_size=12
).map(
    lambda rows: [
        level(f"t{i}", (number, won, trials), retired="mastered" if out else "")
        for i, (number, won, trials, out) in enumerate(rows)
    ]
)


@given(levels, st.integers(5, 9))
def test_chances_are_a_distribution_over_the_levels_in_play(found: list[Level], now: int) -> None:
    dealt = chances(found, now, Sampling())
    in_play = [entry for entry in found if not entry.retired]
    assert sum(dealt) == pytest.approx(1.0 if in_play else 0.0)
    assert all((chance > 0) == (not entry.retired) for chance, entry in zip(dealt, found, strict=True))


@given(levels, st.integers(0, 1000))
def test_a_draw_is_of_different_levels_and_the_same_in_any_order(found: list[Level], seed: int) -> None:
    in_play = [entry for entry in found if not entry.retired]
    count = (len(in_play) + 1) // 2
    drawn = sample(found, count, now=6, seed=seed, sampling=Sampling())
    assert len({entry.id for entry in drawn}) == count
    assert not any(entry.retired for entry in drawn)
    shuffled = random.Random(seed).sample(found, len(found))
    assert sample(shuffled, count, now=6, seed=seed, sampling=Sampling()) == drawn


def test_the_first_level_drawn_follows_the_chances() -> None:
    found = [level("half", (5, 50, 100)), level("mastered", (5, 100, 100)), level("rare", (5, 10, 100))]
    expected = chances(found, 5, Sampling())
    drawn = Counter(sample(found, 1, now=5, seed=seed, sampling=Sampling())[0].task for seed in range(4000))
    for entry, chance in zip(found, expected, strict=True):
        assert drawn[entry.task] / 4000 == pytest.approx(chance, abs=0.03)
    assert expected[0] > 2 * expected[2] > 0
    assert expected[2] > expected[1] > 0


def test_more_levels_than_are_in_play_are_refused() -> None:
    with pytest.raises(ConfigError, match="only 1 of 2 are in play"):
        sample([level("a"), level("b", retired="mastered")], 2, now=0, seed=0, sampling=Sampling())


def test_what_was_measured_long_ago_counts_for_less() -> None:
    old = level("old", (0, 100, 100))
    assert worth_of(old, 0).success_rate > 0.98
    assert worth_of(old, 0).learnability < 0.02
    assert worth_of(old, 20).success_rate == pytest.approx(0.5, abs=0.05)
    assert worth_of(old, 20).learnability == pytest.approx(1 / 6, abs=0.01)  # the flat prior's


@given(levels, st.integers(5, 9), st.integers(0, 100))
def test_a_re_measurement_stays_within_its_budget_and_takes_the_least_known_first(
    found: list[Level], now: int, rollouts: int
) -> None:
    chosen = to_remeasure(found, now=now, rollouts=rollouts, per_level=10)
    assert len(chosen) * 10 <= rollouts
    left = [entry for entry in found if not entry.retired and entry.staleness(now) and entry not in chosen]
    if chosen and left:
        worst = min(round(worth_of(entry, now).deviation, 9) for entry in chosen)
        assert all(round(worth_of(entry, now).deviation, 9) <= worst for entry in left)


@pytest.mark.parametrize(
    ("won", "trials", "reason"),
    [(40, 40, "mastered"), (10, 10, ""), (0, 60, "impossible"), (0, 20, ""), (20, 40, ""), (36, 40, "")],
)
def test_a_level_is_retired_only_where_the_rollouts_say_so(won: int, trials: int, reason: str) -> None:
    assert Retirement().reason(level("a", (3, won, trials)), now=3) == reason


@pytest.mark.parametrize("wrong", [{"floor": 0.3}, {"stale_share": 1.5}, {"memory": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="curriculum"):
        Sampling(**wrong)


def test_the_draw_follows_the_frontier_of_a_policy_that_improves_better_than_an_even_draw() -> None:
    """A policy whose skill grows wins the easy levels first; what it can learn from moves with it."""
    places = range(1, 20)

    def rate(place: int, skill: float) -> float:
        return 1 / (1 + exp(12 * (place / 20 - skill)))

    def mean_signal(sampling: Sampling, seed: int) -> float:
        dice = random.Random(seed)
        found = {place: level(f"t{place}") for place in places}
        signal = 0.0
        for now in range(12):
            skill = 0.1 + 0.06 * now
            for drawn in sample(list(found.values()), 5, now=now, seed=seed, sampling=sampling):
                place = int(drawn.task[1:])
                p = rate(place, skill)
                signal += p * (1 - p) / 60
                won = sum(dice.random() < p for _ in range(8))
                seen = LevelOutcome(policy=f"v{now}", round=now, source="s", successes=won, trials=8)
                found[place] = drawn.model_copy(update={"outcomes": (*drawn.outcomes, seen)})
        return signal

    seeds = range(12)
    by_buffer = sum(mean_signal(Sampling(), seed) for seed in seeds)
    even = sum(mean_signal(Sampling(sharpness=0, stale_share=0), seed) for seed in seeds)
    assert by_buffer > 1.1 * even
