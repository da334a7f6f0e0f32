from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from pydantic import ValidationError

from envharness.core.spec import StackSpec
from envharness.rollouts.job import Limits, RolloutJob
from rollouts.hostile import job, kitchen


def test_equal_jobs_have_equal_keys_in_every_process() -> None:
    plain = job(kitchen(seconds=1.0, how="x"))
    again = job(kitchen(how="x", seconds=1.0))
    assert plain == again
    assert plain.key == again.key == RolloutJob.model_validate_json(plain.model_dump_json()).key
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\nfrom envharness.rollouts.job import RolloutJob\n"
        "print(RolloutJob.model_validate_json(sys.argv[1]).key)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, plain.model_dump_json()], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == plain.key


@pytest.mark.parametrize(
    "change",
    [
        {"task": "other"},
        {"stack": StackSpec.environment("kitchen:Kitchen", max_steps=3)},
        {"env_seed": 4},
        {"policy_seed": 9},
        {"index": 1},
        {"limits": Limits(max_steps=7)},
        {"record_states": False},
    ],
)
def test_whatever_differs_changes_the_key(change: dict[str, object]) -> None:
    plain = job()
    assert plain.key
    assert plain.model_copy(update=change).key != plain.key


def test_a_job_is_frozen_and_picklable_and_takes_any_json() -> None:
    plain = job(StackSpec.environment("kitchen:Kitchen", max_steps=2**90))
    assert pickle.loads(pickle.dumps(plain)) == plain  # noqa: S301  our own
    assert len(plain.key) == 32
    with pytest.raises(ValidationError):
        plain.index = 3  # pyright: ignore[reportAttributeAccessIssue]  on purpose
    with pytest.raises(ValidationError):
        Limits(max_steps=0)
