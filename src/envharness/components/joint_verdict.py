"""One verdict out of the verdicts of a Chain's segments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from pydantic import JsonValue

from envharness.core.types import EvaluationResult


def joint_verdict(
    tasks: Sequence[str], verdicts: Sequence[EvaluationResult | None], required: Collection[int]
) -> EvaluationResult:
    """Return success where every required segment is one, and the mean of their scores.

    None is the verdict of a segment never started; it counts as failed, with score 0. `metrics["segments"]` lists every
    segment with its own metrics. At least one segment is required.
    """
    segments = [
        {
            "task": task,
            "required": index in required,
            "visited": verdict is not None,
            "success": verdict is not None and verdict.success,
            "score": 0.0 if verdict is None else verdict.score,
            "metrics": {} if verdict is None else verdict.metrics,
        }
        for index, (task, verdict) in enumerate(zip(tasks, verdicts, strict=True))
    ]
    needed = [verdicts[index] for index in sorted(required)]
    return EvaluationResult(
        success=all(verdict is not None and verdict.success for verdict in needed),
        score=sum(0.0 if verdict is None else verdict.score for verdict in needed) / len(needed),
        metrics={"segments": cast("JsonValue", segments)},
    )
