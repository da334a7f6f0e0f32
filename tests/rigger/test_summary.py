from __future__ import annotations

from envharness.report.numbers import Band, figures_of
from envharness.rigger.summary import Share, count_rollouts, share_after, summarise
from report.build_run import measured, result

BAND = (0.4, 0.6)


def test_a_batch_that_designers_share_is_counted_once() -> None:
    shared = measured(5, 5, valid=4, episodes=("k0", "k1", "k2", "k3", "k4"))
    first = result("a", 3).model_copy(update={"baseline": shared})
    second = result("a", 3).model_copy(update={"baseline": shared, "before": measured(1, 10)})
    assert count_rollouts([first, second]) == (15, 1)


def test_a_task_in_band_that_was_not_sharpened_is_still_in_band() -> None:
    """Its stack is the base stack, which the rollouts of the baseline put in the band."""
    sharpened = result("a", 2).model_copy(update={"status": "rejected"})
    assert share_after([sharpened, result("b", 5)], BAND) == Share(1, 2)


def test_what_scripts_are_told_is_what_the_report_shows() -> None:
    tasks = [result("a", 5, 3, fresh=50), result("b", 2).model_copy(update={"status": "rejected"}), result("c", 5)]
    told = summarise(tasks, tasks, band=BAND, designer="d", seconds=1.0, run_dir="run")
    shown = figures_of(tasks, Band(*BAND))
    assert shown.remeasured is not None
    assert (told.in_band_before, told.in_band_after) == (shown.before.value, shown.after.value)
    assert told.in_band_remeasured == told.identity_in_band_remeasured == shown.remeasured.value
    assert (told.rollouts, told.invalid) == (shown.rollouts, shown.invalid_rollouts)
