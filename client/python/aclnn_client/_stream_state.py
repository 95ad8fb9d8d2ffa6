"""What a stream of several jobs has to remember; shared by the synchronous and the asynchronous one."""

from __future__ import annotations

import collections
from typing import Deque, Optional, Union

from ._errors import reply_error
from ._job import Job, Result

Outcome = Union[Result, BaseException]  # of a job, or the end of the stream


class StreamState:
    """The jobs of a stream: those whose reply is still to come, and how many were sent and taken.

    `add`, `expect_result` and `take` are the user's side, `read` and `ended` the receiver's.
    """

    def __init__(self) -> None:
        self._jobs: Deque[Job] = collections.deque()
        self._submitted = 0
        self._taken = 0
        self._failure: Optional[BaseException] = None
        self.sending_failure: Optional[BaseException] = None
        self.closed = False

    @property
    def unfinished(self) -> bool:
        """Whether there are jobs whose result wasn't taken."""
        return self._taken < self._submitted

    def add(self, job: Job) -> int:
        """A job that is about to be sent; its number."""
        if self.closed:
            raise ValueError("the stream is closed")
        self._jobs.append(job)
        self._submitted += 1
        return self._submitted - 1

    def expect_result(self) -> None:
        """Raises what the stream failed with, or ValueError if there is nothing to wait for."""
        if self._failure is not None:
            raise self._failure
        if not self.unfinished:
            raise ValueError("no job is under way on this stream")

    def take(self, outcome: Outcome) -> Result:
        """The next outcome: returns a result, raises a failure."""
        if isinstance(outcome, BaseException):
            self._failure = outcome
            raise outcome
        self._taken += 1
        return outcome

    def read(self, message: bytes) -> Optional[Result]:
        """Takes one message of the reply; the Result of the job that it completes, if it does."""
        if not self._jobs:
            raise reply_error("a message comes, but no job is under way")
        if not self._jobs[0].read(message):
            return None
        return self._jobs.popleft().result

    def ended(self, error: Optional[BaseException] = None) -> BaseException:
        """What further results are after the call ended, with an error or with success."""
        if self.sending_failure is not None:
            return self.sending_failure
        if error is not None:
            return error
        if self._jobs:
            return reply_error(f"the stream ended with {len(self._jobs)} unfinished jobs")
        return ValueError("the stream is closed")
