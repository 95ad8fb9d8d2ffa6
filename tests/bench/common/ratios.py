"""From figures of rounds to ratios."""

import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The median of the rounds' ratios with their quartiles."""

    median: float
    low: float
    high: float


def ratio(numerator, denominator):
    """Of two contestants' rounds: each round's figures were taken one shortly after the other."""
    quotients = [a / b for a, b in zip(numerator, denominator)]
    low, _, high = statistics.quantiles(quotients, n=4, method="inclusive") if len(quotients) > 1 else quotients * 3
    return Ratio(statistics.median(quotients), low, high)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))
