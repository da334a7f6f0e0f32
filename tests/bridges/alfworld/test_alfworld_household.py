from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from envharness.bridges.alfworld import Alfworld
from envharness.bridges.alfworld.household import WEAKNESSES, HouseholdPolicy
from envharness.bridges.alfworld.weaknesses import WITHOUT_TEMPLATE, Weaknesses
from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec, Turn
from envharness.core.types import Action, Observation, ToolSchema

NO_WEAKNESS = dict.fromkeys(WEAKNESSES, 0.0)
TOOLS = (ToolSchema(name="act", parameters={"type": "object", "properties": {"command": {"type": "string"}}}),)
Change = Callable[[str, str], str]
"""What is made of a screen: (command, text) → text."""


def _as_it_is(command: str, text: str) -> str:
    return text


def _play(env: Alfworld, policy: HouseholdPolicy, *, shown: Change = _as_it_is, refuse: str = " ") -> list[str]:
    """Play an episode with screens changed by `shown` and commands that start with `refuse` blocked."""
    text = shown("", env.reset().observation.text)
    commands: list[str] = []
    for step in range(50):
        decision = asyncio.run(policy.act(Turn(observation=Observation(text=text), tools=TOOLS, step=step)))
        if decision.action is None:
            break
        commands.append(str(decision.action.kwargs["command"]))
        if commands[-1].startswith(refuse):
            text = shown(commands[-1], f"Blocked: not this way.\n\n{env.observe().text}")
            continue
        response = env.step(decision.action)
        text = shown(commands[-1], response.observation.text)
        if response.terminated or response.truncated:
            break
    return commands


def _success_rate(
    env: Alfworld, *, runs: int = 20, shown: Change = _as_it_is, refuse: str = " ", **weak: float
) -> float:
    wins = 0
    for seed in range(runs):
        _play(env, HouseholdPolicy(seed=seed, **{**NO_WEAKNESS, **weak}), shown=shown, refuse=refuse)
        wins += env.evaluate().success
    return wins / runs


@pytest.fixture
def cup(alfworld_engine: None) -> Alfworld:
    return Alfworld(task="builtin/clean-cup-to-shelf")


def test_without_weaknesses_it_wins_the_built_in_games(mug: Alfworld, cup: Alfworld) -> None:
    assert _success_rate(mug) == 1.0
    mug.close()
    assert _success_rate(cup) == 1.0
    cup.close()


def test_it_is_deterministic_given_its_seed_and_differs_between_seeds(cup: Alfworld) -> None:
    weak = dict.fromkeys(WEAKNESSES, 0.4)
    plays = [tuple(_play(cup, HouseholdPolicy(seed=seed, **weak))) for seed in (1, 1, 2, 3, 4)]
    cup.close()
    assert plays[0] == plays[1]
    assert len(set(plays)) > 1


def test_every_weakness_is_an_option_and_some_have_no_template() -> None:
    assert set(WEAKNESSES) == set(Weaknesses.model_fields)
    assert len(WITHOUT_TEMPLATE) >= 2
    assert set(WEAKNESSES) >= WITHOUT_TEMPLATE
    policy = PolicySpec(id="household", options={"visible_only": 0.0}).build(seed=3)
    assert isinstance(policy, HouseholdPolicy)


@pytest.mark.parametrize("options", [{"visible_only": 1.5}, {"visible": 0.5}, {"loops": "often"}])
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"option '{next(iter(options))}'.*visible_only"):
        HouseholdPolicy(seed=0, **options)


def test_visible_only_never_opens_and_so_loses_what_is_hidden(cup: Alfworld) -> None:
    policy = HouseholdPolicy(seed=0, **{**NO_WEAKNESS, "visible_only": 1.0})
    assert not any(command.startswith("open") for command in _play(cup, policy))
    assert _success_rate(cup, visible_only=1.0) == 0.0
    cup.close()


def test_skips_preparation_places_the_cup_dirty(cup: Alfworld) -> None:
    policy = HouseholdPolicy(seed=0, **{**NO_WEAKNESS, "skips_preparation": 1.0})
    commands = _play(cup, policy)
    assert "move cup 1 to shelf 1" in commands
    assert not any(command.startswith("clean") for command in commands)
    assert not cup.evaluate().success
    cup.close()


def test_stops_early_gives_up_at_setbacks_only(mug: Alfworld) -> None:
    assert _success_rate(mug, stops_early=1.0) == 1.0

    def fail_everything(command: str, text: str) -> str:
        return f"That failed.\n\n{text}" if command else text

    policy = HouseholdPolicy(seed=1, **{**NO_WEAKNESS, "stops_early": 1.0})
    assert len(_play(mug, policy, shown=fail_everything)) < 50


def test_ignores_errors_repeats_the_command_that_failed(mug: Alfworld) -> None:
    stubborn = HouseholdPolicy(seed=0, **{**NO_WEAKNESS, "ignores_errors": 1.0})
    commands = _play(mug, stubborn, refuse="take")
    first = commands.index("take mug 1 from countertop 1")
    assert set(commands[first:]) == {"take mug 1 from countertop 1"}
    patient = _play(mug, HouseholdPolicy(seed=0, **NO_WEAKNESS), refuse="take")
    pairs = list(pairwise(patient))
    assert sum(before == after for before, after in pairs) < len(pairs) / 4


def test_forgets_goal_only_where_the_text_is_long(mug: Alfworld) -> None:
    def padded(command: str, text: str) -> str:
        return text + "\nOutside, the wind goes on and on." * 150

    assert _success_rate(mug, forgets_goal=1.0) == 1.0
    assert _success_rate(mug, shown=padded) == 1.0
    assert _success_rate(mug, forgets_goal=1.0, shown=padded) < 0.7


def test_what_is_cut_away_is_not_known(mug: Alfworld) -> None:
    rates = {
        length: _success_rate(mug, shown=lambda _, text, length=length: text[:length]) for length in (2000, 200, 60, 30)
    }
    assert rates[2000] == 1.0
    assert rates[200] == 1.0
    assert rates[60] == rates[30] == 0.0


@pytest.mark.parametrize("distrust", [0.0, 1.0])
def test_a_hint_in_the_text_is_used_unless_distrusted(cup: Alfworld, distrust: float) -> None:
    def hinted(command: str, text: str) -> str:
        return f"{text}\nHint: the cup is behind a door; try to open cabinet 2"

    rate = _success_rate(cup, shown=hinted, visible_only=1.0, distrusts_hints=distrust)
    assert rate == 1.0 - distrust
    cup.close()


def test_a_block_is_seen_and_worked_around_imperfectly(cup: Alfworld) -> None:
    blocked = _success_rate(cup, refuse="go to cabinet 2")
    assert blocked == 0.0
    other_way = _success_rate(cup, refuse="go to fridge", stops_early=0.6)
    assert other_way > 0.5
    cup.close()


def test_a_new_goal_is_a_new_task(mug: Alfworld) -> None:
    policy = HouseholdPolicy(seed=0, **NO_WEAKNESS)
    _play(mug, policy)
    assert mug.evaluate().success
    mug.close()
    with Alfworld(task="builtin/clean-cup-to-shelf") as second:
        _play(second, policy)
        assert second.evaluate().success


def test_it_speaks_through_whatever_tool_takes_a_command() -> None:
    tools = (ToolSchema(name="stop"), ToolSchema(name="house_act", parameters={"properties": {"command": {}}}))
    turn = Turn(
        observation=Observation(text="- go to desk 1\nYour task is to: put a mug in desk."), tools=tools, step=0
    )
    decision = asyncio.run(HouseholdPolicy(seed=0, **NO_WEAKNESS).act(turn))
    assert decision.action == Action(name="house_act", kwargs={"command": "go to desk 1"})


@pytest.mark.parametrize(
    "text", ["", "\x00\x1b[31m", "you see you see", "- \n-  \n- take\n- move to", "Your task is to: "]
)
def test_no_text_is_too_strange(text: str) -> None:
    policy = HouseholdPolicy(seed=0)
    for step in range(5):
        asyncio.run(policy.act(Turn(observation=Observation(text=text), tools=(), step=step)))


@pytest.mark.slow
def test_without_weaknesses_it_wins_most_real_games(games_folder: Path) -> None:
    wins = 0
    for index in range(7, 300, 29):
        with Alfworld(split="train", index=index, data=str(games_folder)) as env:
            _play(env, HouseholdPolicy(seed=index, **NO_WEAKNESS))
            wins += env.evaluate().success
    assert wins >= 9  # of 11


@pytest.mark.slow
def test_with_the_default_weaknesses_most_real_games_are_won_always_or_never(games_folder: Path) -> None:
    rates: list[float] = []
    for index in range(5, 300, 30):
        with Alfworld(split="train", index=index, data=str(games_folder)) as env:
            wins = 0
            for seed in range(5):
                _play(env, HouseholdPolicy(seed=seed))
                wins += env.evaluate().success
            rates.append(wins / 5)
    assert sum(rate in {0.0, 0.2, 0.8, 1.0} for rate in rates) >= 8  # of 10
    assert min(rates) == 0.0
    assert max(rates) == 1.0
