"""The Beta posterior of a success rate: what counts of wins and losses say about it, before any model of magnitudes."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR = (1.0, 1.0)
"""The flat prior: every rate is as likely as any other until a rollout is seen."""


@dataclass(frozen=True)
class BetaPosterior:
    """The posterior Beta(a + successes, b + losses) of a success rate."""

    successes: int
    trials: int
    prior: tuple[float, float] = PRIOR

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise ValueError(f"{self.successes} successes of {self.trials} trials: give 0 <= successes <= trials")
        if min(self.prior) <= 0:
            raise ValueError(f"prior {self.prior}: both parameters must be positive")

    @property
    def parameters(self) -> tuple[float, float]:
        """Both parameters of the distribution."""
        return (self.prior[0] + self.successes, self.prior[1] + self.trials - self.successes)

    @property
    def mean(self) -> float:
        """The expected rate, strictly between 0 and 1."""
        a, b = self.parameters
        return a / (a + b)

    def mass(self, band: tuple[float, float]) -> float:
        """Return the probability, 0 to 1, that the rate lies in `band`; 0 where the band is empty."""
        from scipy.special import betainc  # here, because importing scipy costs more than most commands take

        a, b = self.parameters
        low, high = max(band[0], 0.0), min(band[1], 1.0)
        return max(0.0, float(betainc(a, b, high) - betainc(a, b, low))) if low <= high else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the equal-tailed credible interval that holds the rate with probability `level`."""
        from scipy.special import betaincinv

        a, b = self.parameters
        tail = (1 - level) / 2
        return (float(betaincinv(a, b, tail)), float(betaincinv(a, b, 1 - tail)))
