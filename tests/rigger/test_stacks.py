from __future__ import annotations

from pathlib import Path

import pytest

from envharness.components.stack_file import read_stack, save_stack
from envharness.core.errors import ConfigError
from envharness.core.spec import StackSpec
from envharness.rigger.records import TaskResult
from envharness.rigger.stacks import base_stacks, export_stacks, file_name, stacks_digest
from rigger.build import config, measured


def stack(task: str | None, bridge: str = "rigger.halls:Halls") -> StackSpec:
    options = {} if task is None else {"task": task}
    return StackSpec.environment(bridge, **options).wrap("stage", actions=[])


def result(task: str, status: str) -> TaskResult:
    return TaskResult.model_validate(
        {
            "task": task,
            "status": status,
            "base_stack": stack(task),
            "final_stack": stack(task),
            "baseline": measured(5),
        }
    )


def test_a_bare_task_keeps_the_environments_options() -> None:
    settings = config(environment_options={"reference": False})
    assert base_stacks(settings, ["hall-1"])["hall-1"] == StackSpec.environment(
        "rigger.halls:Halls", reference=False, task="hall-1"
    )


def test_accepted_stacks_come_back_as_the_next_base(tmp_path: Path) -> None:
    written = export_stacks([result("hall-0", "accepted"), result("hall-1", "rejected")], tmp_path)
    assert [path.name for path in written] == ["hall-0.json"]
    assert read_stack(written[0]) == stack("hall-0")
    for where in (tmp_path / "stacks", written[0]):
        found = base_stacks(config(stacks=str(where)), ["hall-0", "hall-1"])
        assert found["hall-0"] == stack("hall-0")
        assert found["hall-1"].stack.kind == "environment"


def test_a_chains_task_is_its_first_segments(tmp_path: Path) -> None:
    segments = [stack("hall-2").stack.model_dump(mode="json"), stack("hall-3").stack.model_dump(mode="json")]
    chain = StackSpec.from_data({"schema_version": 2, "stack": {"kind": "chained", "segments": segments}})
    save_stack(chain, tmp_path / "chain.json")
    assert base_stacks(config(stacks=str(tmp_path)), ["hall-2"])["hall-2"] == chain


def test_stacks_that_do_not_belong_are_named(tmp_path: Path) -> None:
    def message(*stacks: StackSpec) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, one in enumerate(stacks):
            save_stack(one, folder / f"{number}.json")
        with pytest.raises(ConfigError) as caught:
            base_stacks(config(stacks=str(folder)), ["hall-0"])
        return str(caught.value)

    assert "no .json file" in message()
    assert "does not say which task" in message(stack(None))
    assert "both about task 'hall-0'" in message(stack("hall-0"), stack("hall-0"))
    assert "is about 'toy24', this run about 'rigger.halls:Halls'" in message(stack("hall-0", "toy24"))
    assert "holds no stack of a task of this run (it has hall-5)" in message(stack("hall-5"))


@pytest.mark.parametrize("task", ["a/b c/d.tw", "../../etc/passwd", ".hidden", "/"])
def test_file_names_stay_in_their_folder(task: str) -> None:
    name = file_name(task)
    assert name
    assert "/" not in name
    assert not name.startswith(".")


def test_a_digest_of_stacks_is_of_their_content_and_not_of_their_place(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    stacks = [StackSpec.environment("toy24", task=task) for task in ("easy-0000", "easy-0001")]
    for folder, names in ((first, ("a", "b")), (second, ("z", "c"))):
        for stack, name in zip(stacks, names, strict=True):
            save_stack(stack, folder / f"{name}.json")
    assert stacks_digest(first) == stacks_digest(second)
    save_stack(stacks[0].wrap("stage", actions=[]), second / "z.json")
    assert stacks_digest(first) != stacks_digest(second)
