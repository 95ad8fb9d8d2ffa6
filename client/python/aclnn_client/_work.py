"""What is to be executed, as often as it takes."""

from __future__ import annotations

from typing import Callable, Optional

import grpc

from ._errors import AclnnError
from ._job import Job
from ._plan import Plan, PlanState


class Tries:
    """How often something was tried since it last got on.

    Attributes:
      failed: so many failures.
      planned_anew: whether plans were made anew because the server didn't know them.
      told: the last failure of which the server said the reason.
    """

    def __init__(self) -> None:
        self.got_on()

    def got_on(self) -> None:
        """Something came of it: what fails from now on is another matter."""
        self.failed = 0
        self.planned_anew = False
        self.told: Optional[AclnnError] = None

    def reason_for(self, error: AclnnError) -> AclnnError:
        """What to report when `error` is the last failure.

        A way that broke on a retry says less than the server did before: that it is drained, or too busy.
        """
        if error.reason:
            self.told = error
        bare = error.code == grpc.StatusCode.UNAVAILABLE and not error.reason
        return self.told if bare and self.told is not None else error


class Work:
    """What one job is to do. Each try is a Job of its own, into which nothing gets that a failed one left.

    Attributes:
      plan: the plan to execute, or None for both phases at once.
      state: the plan's state that the present job was made for.
      job: the present job.
      sent: whether something of the present job may have been sent.

    Args:
      make: makes a job for a state of the plan; raises AclnnArgumentError if the arguments don't fit it, TypeError for
        what is no tensor.
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
