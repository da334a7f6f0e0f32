from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envharness.cli.config_file import read_config
from envharness.cli.rigging import RigFile
from envharness.core.errors import ConfigError

GOOD = """
environment: {id: toy24}
tasks: {count: 2}
policy: {id: solver}
run_dir: runs/x
"""


def read(tmp_path: Path, text: str, **overrides: object) -> RigFile:
    path = tmp_path / "rig.yaml"
    path.write_text(text)
    return read_config(path, RigFile, overrides)


def test_a_file_and_flags_that_override_it(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD, **{"seed": 7, "engine.workers": 3, "designer.id": None})
    assert (file.seed, file.engine.workers, file.designer.id) == (7, 3, "template")
    assert "run_dir" not in file.content().model_dump()


def test_the_size_of_the_pool_is_a_number_or_fits_itself(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).engine.workers == "auto"
    assert read(tmp_path, GOOD).engine.episodes_per_worker == "auto"
    flags = {"engine.workers": "auto", "engine.episodes_per_worker": "250"}
    file = read(tmp_path, GOOD + "engine: {workers: 3, episodes_per_worker: 2}\n", **flags)
    assert (file.engine.workers, file.engine.episodes_per_worker) == ("auto", 250)


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", "true", "many", "10001", "99999999999", "null"])
def test_another_size_is_refused_with_what_is_allowed(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"line 7, key 'engine\.workers': .*from 1 to 10000, or auto"):
        read(tmp_path, GOOD + f"engine:\n  workers: {wrong}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD + "bund: [0.4, 0.6]\n",
            r"rig\.yaml, line 6, key 'bund': unknown key \(allowed: acceptance, band, .*rounds",
        ),
        (
            GOOD + "engine:\n  backend: moon\n",
            r"line 7, key 'engine\.backend': Input should be 'inline', 'pool' or 'ray', found 'moon'",
        ),
        (
            GOOD + "engine:\n  colour: red\n",
            r"line 7, key 'engine\.colour': unknown key \(allowed: backend, episodes_per_worker, ray_address, retries, snapshots, workers\)",
        ),
        (
            GOOD + "engine:\n  snapshots: sometimes\n",
            r"line 7, key 'engine\.snapshots': Input should be 'auto', 'always' or 'never', found 'sometimes'",
        ),
        (GOOD + "rollouts: many\n", r"line 6, key 'rollouts': .*integer.*'many'"),
        (GOOD + "seed: 1\nseed: 2\n", r"line 7: key 'seed' is given twice"),
        (GOOD + "band: [0.6, 0.4]\n", r"band"),
        ("environment: {id: toy24}\n", r"required keys are missing: tasks, policy, run_dir"),
        ("- a\n- b\n", r"expected keys and values, found a list"),
        ("a: [\n", r"line 2: not YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", r"line 1: not YAML"),
        ("a: &x [*x]\n", r"unknown key|holds itself"),
        ("", r"required"),
        (
            'policy:\n  id: llm\n  options: {instructions: "half \\ud83d"}\n',
            r"line 3, key 'policy\.options\.instructions': .*half of a character",
        ),
        ('"\\udfff": 1\n', r"line 1: a key: .*half of a character"),
        (GOOD + "budget: {money: 1.0e+400}\n", r"line 6, key 'budget\.money': 1\.0e\+400 is no number"),
        (GOOD + "budget: {tokens: 0}\n", r"line 6, key 'budget\.tokens'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration: No such file"):
        read_config(tmp_path / "none.yaml", RigFile)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_config(binary, RigFile)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_no_text_makes_the_reader_fail_in_another_way(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fuzz.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError):
        read_config(path, RigFile)
