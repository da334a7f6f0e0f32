"""One verdict out of the verdicts of a Chain's segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import cast

from pydantic import JsonValue

from envharness.core.types import EvaluationResult

_MOST_UNKNOWN = 12
"""Of more segments than these, not every way they may have gone is tried."""


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


def joint_goal(
    reached: Sequence[bool | None],
    required: Callable[[Sequence[bool | None]], Collection[int]],
    visited: Collection[int],
) -> bool | None:
    """Return whether all required segments have reached their goals; None where that depends on one that cannot tell.

    `reached` is for each segment what is known of its goal. `required` says which segments are, given how those visited
    went (None for the others): every way in which the unknown ones may have gone is tried.
    """
    unknown = [index for index in sorted(visited) if reached[index] is None]
    if len(unknown) > _MOST_UNKNOWN:
        return None
    found: set[bool] = set()
    for guesses in product((True, False), repeat=len(unknown)):
        guessed = dict(zip(unknown, guesses, strict=True))
        went = [guessed.get(index, known) if index in visited else None for index, known in enumerate(reached)]
        found.add(all(went[index] is True for index in required(went)))
    return found.pop() if len(found) == 1 else None
