"""What a comparison is told, and the rigging runs (cells) it is made of: designers by policies by seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from envharness.core.policy import PolicySpec
from envharness.core.types import JsonDict
from envharness.rigger.config import DesignerConfig, RigConfig
from envharness.rigger.records import NULL_DESIGNER
from envharness.rigger.stacks import file_name

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names become folders, and stand in tables."""


def _plain(value: Any) -> Any:
    """Read a plain id as `{id: ...}`."""
    return {"id": value} if isinstance(value, str) else value


class NamedDesigner(BaseModel):
    """A designer under comparison. Two of one id, with other options, need names of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    name: str = Field(default="", pattern=f"^$|{NAME}")
    """What tables and folders call it; the id where it is empty."""

    @property
    def label(self) -> str:
        """Its name in tables and folders."""
        return self.name or file_name(self.id)

    def config(self) -> DesignerConfig:
        """Return it as a run names it."""
        return DesignerConfig(id=self.id, options=self.options)


class NamedPolicy(BaseModel):
    """A policy that designers are crossed with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    options: JsonDict = Field(default_factory=dict)
    name: str = Field(default="", pattern=f"^$|{NAME}")
    """What tables and folders call it; the id where it is empty."""

    @property
    def label(self) -> str:
        """Its name in tables and folders."""
        return self.name or file_name(self.id)

    def spec(self) -> PolicySpec:
        """Return it as a run names it."""
        return PolicySpec(id=self.id, options=self.options)


class CompareConfig(BaseModel):
    """A comparison: the run that all cells share, and what differs between them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: RigConfig
    """The run of every cell. Its designer, null and seed are the cells' own; its seed chooses the tasks."""
    designers: list[Annotated[NamedDesigner, BeforeValidator(_plain)]] = Field(min_length=2)
    seeds: list[int] = Field(min_length=1)
    """One run each; the tasks are the same in all."""
    policies: list[Annotated[NamedPolicy, BeforeValidator(_plain)]] = Field(default_factory=list[NamedPolicy])
    """Policies that every designer works on; empty is the base's own."""
    reference: str = "random"
    """The name of the designer that every other one is held against."""
    resamples: int = Field(default=10_000, ge=100, le=1_000_000)
    """Bootstrap samples of the tasks behind every interval."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key, names in (
            ("designers", [designer.label for designer in self.designers]),
            ("policies", [policy.label for policy in self.policies]),
            ("seeds", [str(seed) for seed in self.seeds]),
        ):
            if doubled := [name for name in names if names.count(name) > 1]:
                raise ValueError(f"{key}: {doubled[0]!r} is there twice; give each a name of its own")
        labels = [designer.label for designer in self.designers]
        if self.reference not in labels:
            raise ValueError(f"reference: no designer {self.reference!r} here (designers: {', '.join(labels)})")
        return self

    @property
    def players(self) -> dict[str, PolicySpec]:
        """The policies by name, in order."""
        if not self.policies:
            return {file_name(self.base.policy.id): self.base.policy}
        return {policy.label: policy.spec() for policy in self.policies}

    @property
    def names(self) -> list[str]:
        """The designers' names, in order."""
        return [designer.label for designer in self.designers]


@dataclass(frozen=True)
class Cell:
    """One rigging run of a comparison."""

    policy: str
    designer: str
    seed: int
    tasks: tuple[str, ...]
    config: RigConfig
    first: bool
    """Whether it is the first of its policy and seed, which plays what all designers of them share."""

    def folder(self, root: Path) -> Path:
        """Return the run folder of this cell."""
        return root / "cells" / self.policy / f"seed-{self.seed}" / self.designer

    def __str__(self) -> str:
        return f"{self.designer} on {self.policy}, seed {self.seed}"


def cells_of(config: CompareConfig, tasks: Sequence[str]) -> list[Cell]:
    """Return the cells in the order they are run: policy by policy, seed by seed, designer by designer."""
    return [
        Cell(
            policy=policy,
            designer=designer.label,
            seed=seed,
            tasks=tuple(tasks),
            config=_cell_config(config.base, tasks, spec, designer, seed),
            first=number == 0,
        )
        for policy, spec in config.players.items()
        for seed in config.seeds
        for number, designer in enumerate(config.designers)
    ]


def _cell_config(
    base: RigConfig, tasks: Sequence[str], policy: PolicySpec, designer: NamedDesigner, seed: int
) -> RigConfig:
    """Return the run of a cell. The identity designer is the null; elsewhere it is a cell of its own, or not wanted."""
    changes = {
        "tasks": list(tasks),
        "policy": policy,
        "designer": designer.config(),
        "null": designer.id == NULL_DESIGNER,
        "seed": seed,
    }
    # Validated, because a copy with changes would not be.
    fields = cast("dict[str, object]", base.model_copy(update=changes).model_dump())
    return RigConfig.model_validate(fields)
