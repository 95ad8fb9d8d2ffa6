"""What is to be executed, as often as it takes."""

from __future__ import annotations

from typing import Callable, Optional

from ._job import Job
from ._plan import Plan, PlanState


class Tries:
    """How often something was tried since it last got on.

    Attributes:
      failed: so many failures.
      planned_anew: whether plans were made anew because the server didn't know them.
    """

    def __init__(self) -> None:
        self.failed = 0
        self.planned_anew = False

    def got_on(self) -> None:
        """Something came of it: what fails from now on is another matter."""
        self.failed = 0
        self.planned_anew = False


class Work:
    """What one job is to do. Each try is a Job of its own, into which nothing gets that a failed one left.

    Attributes:
      plan: the plan to execute, or None for both phases at once.
      state: the plan's state that the present job was made for.
      job: the present job.
      sent: whether something of the present job may have been sent.

    Args:
      make: makes a job for a state of the plan; raises ValueError or TypeError if the arguments don't fit it.
      plan: as above.
    """

    def __init__(self, make: Callable[[Optional[PlanState]], Job], plan: Optional[Plan] = None) -> None:
        self._make = make
        self.plan = plan
        self._begin()

    def _begin(self) -> None:
        self.state = None if self.plan is None else self.plan.snapshot()
        self.job = self._make(self.state)
        self.sent = False

    def job_to_send(self) -> Job:
        """A job of which nothing was sent yet, for the plan as it is now. It becomes the present one."""
        if self.sent or (self.plan is not None and self.plan.snapshot() is not self.state):
            self._begin()
        self.sent = True
        return self.job
