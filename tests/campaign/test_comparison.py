from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from envharness.campaign.comparison import CompareConfig, cells_of
from rigger.build import config

BASE = config(tasks=["hall-0", "hall-1"], remeasure=3, seed=9)


def comparison(**fields: Any) -> CompareConfig:
    fields = {"base": BASE.model_dump(), "designers": ["template", "random"], "seeds": [1, 2], **fields}
    return CompareConfig.model_validate(fields)


def test_every_cell_is_a_run_of_its_own_on_the_same_tasks() -> None:
    made = comparison(
        designers=["template", {"id": "random", "options": {"only": ["hint"]}, "name": "hints"}, "identity"],
        policies=[{"id": "rigger.halls:Walker", "name": "strong"}, "solver"],
        reference="hints",
    )
    cells = cells_of(made, ["hall-0", "hall-1"])
    assert [str(cell) for cell in cells][:4] == [
        "template on strong, seed 1",
        "hints on strong, seed 1",
        "identity on strong, seed 1",
        "template on strong, seed 2",
    ]
    assert len(cells) == 12
    assert len({cell.folder(Path("x")) for cell in cells}) == 12
    assert [cells[0].starts_as(cell) for cell in cells] == [False, True, True, *[False] * 9]
    assert {cell.config.designer.id: cell.config.null for cell in cells} == {
        "template": False,
        "random": False,
        "identity": True,
    }
    for cell in cells:
        designer, policy, null, seed = cell.config.designer, cell.config.policy, cell.config.null, cell.config.seed
        same = BASE.model_copy(update={"designer": designer, "policy": policy, "null": null, "seed": seed})
        assert cell.config == same, "nothing else may differ"
    assert cells[1].config.designer.options == {"only": ["hint"]}
    assert cells[6].config.policy.id == "solver"


def test_without_policies_the_bases_own_plays() -> None:
    assert list(comparison().players.values()) == [BASE.policy]
    assert list(comparison().players) == ["rigger.halls__Walker"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reference": "llm"}, "no designer 'llm' here (designers: template, random)"),
        ({"designers": ["template"], "reference": "template"}, "at least 2"),
        ({"designers": ["random", "random"]}, "'random' is there twice"),
        ({"seeds": [1, 1]}, "'1' is there twice"),
        ({"seeds": []}, "at least 1"),
        ({"policies": ["solver", {"id": "solver", "options": {"x": 1}}]}, "'solver' is there twice"),
        ({"designers": ["random", {"id": "llm", "name": "../up"}]}, "designers.1.name"),
        ({"designers": ["random", {"id": "llm", "model": "x"}]}, "designers.1.model"),
    ],
)
def test_what_cannot_be_compared_is_said(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        comparison(**fields)
    problem = caught.value.errors()[0]
    assert words in f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
