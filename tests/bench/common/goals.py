"""What a benchmark's figures are to reach, and whether they do."""

import dataclasses
import typing


@dataclasses.dataclass
class Target:
    name: str
    at_least: float
    goal: typing.Optional[float]
    value: typing.Optional[float] = None
    where: str = ""  # the case that decides, or what the value is made of
    at_most: bool = False  # lower is better
    doubt: str = ""  # why the value isn't judged, or why there is none
    at_limit: typing.Optional[float] = None  # what the value would be if ours took no longer than the memory needs

    def _reaches(self, mark):
        return None if self.value is None or mark is None or self.doubt else (
            self.value <= mark if self.at_most else self.value >= mark)

    @property
    def met(self):
        """None: not measured."""
        return self._reaches(self.at_least)

    @property
    def goal_met(self):
        return self._reaches(self.goal)

    def to_json(self):
        return {
            "name": self.name, "value": self.value, "at_least": self.at_least, "goal": self.goal, "met": self.met,
            "goal_met": self.goal_met, "lower_is_better": self.at_most, "where": self.where, "doubt": self.doubt,
            "at_limit": self.at_limit,
        }


def _outcome(target):
    if target.doubt:
        return ("not measurable here: " if target.value is None else "not judged: ") + target.doubt
    if target.met is None:
        return "not measured"
    if not target.met:
        return "not met"
    return "met, goal too" if target.goal_met else "met"


def target_lines(targets):
    """The table of targets; a column for the limit where a target has one."""
    width = max(len(target.name) for target in targets)
    limits = any(target.at_limit is not None for target in targets)
    heading = "\n" + "target".ljust(width) + "   value  at least    goal" + ("  at limit" if limits else "")
    lines = [heading + "  outcome (where)"]
    for target in targets:
        sign = "<=" if target.at_most else ">="
        value = "      -" if target.value is None else f"{target.value:7.2f}"
        goal = "-" if target.goal is None else f"{sign}{target.goal:.2f}"
        at_limit = "-" if target.at_limit is None else f"{target.at_limit:.2f}"
        where = f" ({target.where})" if target.where else ""
        lines.append(f"{target.name.ljust(width)} {value}  {sign}{target.at_least:6.2f}  {goal:>6}" +
                     (f"  {at_limit:>8}" if limits else "") + f"  {_outcome(target)}{where}")
    return lines
