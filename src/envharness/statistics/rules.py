"""Rules of acceptance: pure decisions from counts and probabilities. What is played next is the caller's business."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class Ruling(StrEnum):
    """What a rule says about a candidate."""

    ACCEPT = "accept"
    REJECT = "reject"
    MORE = "more"


def empirical(successes: int, trials: int, *, band: tuple[float, float], rollouts: int) -> Ruling:
    """Accept where the observed rate lies in `band` once all `rollouts` were played: the method's rule.

    All of them run, always: the rule reads the rate of a full batch, so there is no stopping early that is exact.
    """
    if trials < rollouts:
        return Ruling.MORE
    # Counts, not rates: 3 / 5 and 0.6 are to be the same number.
    low, high = band[0] * trials, band[1] * trials
    return Ruling.ACCEPT if low - 1e-9 <= successes <= high + 1e-9 else Ruling.REJECT


def posterior(probability: float, *, accept: float, reject: float, exhausted: bool) -> Ruling:
    """Accept where the probability on target is at least `accept`, reject where it is below `reject`, else play more.

    `exhausted` says that the cap on rollouts is reached: what is undecided then is rejected.
    """
    if not 0.0 <= reject <= accept <= 1.0:
        raise ValueError(f"accept {accept}, reject {reject}: give 0 <= reject <= accept <= 1")
    if probability >= accept:
        return Ruling.ACCEPT
    return Ruling.REJECT if probability < reject or exhausted else Ruling.MORE


def dose_finding(best: float, reachable: float, *, accept: float, give_up: float, exhausted: bool) -> Ruling:
    """Rule on a whole task: `best` is the mass of the best dose, `reachable` the largest mass any type has in band.

    Accept the best dose where its mass is at least `accept`; reject the task where no type can be brought into the band
    with a probability of `give_up` or more, or the cap is reached; else play more at the best dose.
    """
    return posterior(best, accept=accept, reject=0.0, exhausted=exhausted or reachable < give_up)


def settled(successes: int, trials: int, remaining: int, rule: Callable[[int, int], Ruling]) -> Ruling | None:
    """Return the ruling that `remaining` further rollouts of a batch cannot change, or None where they may.

    `rule` reads (successes, trials) at the end of the batch. With `posterior` the ruling is exactly the one that the
    full batch gives, whatever comes, though it rests on fewer rollouts. MORE is an answer too: the batch then ends
    early and the next begins, which is another plan than the full one; callers who want the same plan act on ACCEPT
    and REJECT alone. It is not for `empirical`, whose batches are played in full.
    """
    rulings = {rule(successes + won, trials + remaining) for won in range(remaining + 1)}
    return rulings.pop() if len(rulings) == 1 else None
