"""The two runs that the durability tests interrupt: one whose designer is free, one whose designer asks a model."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

TEMPLATE = """
environment: {id: toy24}
tasks: {count: 2, order: spread}
policy: {id: solver}
designer: {id: template}
rounds: 3
rollouts: 4
band: [0.3, 0.7]
remeasure: 3
limits: {max_steps: 20}
run_dir: unused
engine: {backend: pool, workers: 2}
"""
WRITTEN = f"""
environment: {{id: toy24}}
tasks: [easy-0000, hard-0050]
policy: {{id: solver}}
designer:
  id: llm
  options:
    model: {{client: recorded, model: hand-written, recording: {ROOT / "experiments/recordings/toy24-designer.jsonl"}}}
    instructions: |
      The puzzle is the 24 game. Each call that reaches the table costs one of twelve steps. reset_numbers takes all moves
      back, those of a Stage too. Numbers are text, such as "8" or "8/3".
scaffold_from_reference: true
"null": false
seed: 0
limits: {{max_steps: 30}}
run_dir: unused
engine: {{backend: pool, workers: 2}}
"""
RUNS = {"template": TEMPLATE, "llm": WRITTEN}
