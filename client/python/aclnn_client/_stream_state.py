"""What a stream of several jobs has to remember; shared by the synchronous and the asynchronous one."""

from __future__ import annotations

import collections
from typing import Deque, List, Optional, Tuple, Union

from ._errors import AclnnError, reply_error
from ._job import Job, Result
from ._work import Tries, Work

Outcome = Union[Result, BaseException]  # of a job, or the end of the stream


class StreamState:
    """The jobs of a stream: those whose reply is still to come, and how many were sent and taken.

    `add`, `expect_result` and `take` are the user's side, the rest is the receiver's: `jobs_to_send` before
    each Execute call, `read` and `call_ended` in its course, `ended` when there will be no other one.
    """

    def __init__(self) -> None:
        self._works: Deque[Work] = collections.deque()  # without a result, in order
        self._submitted = 0
        self._taken = 0
        self._first_of_call = 0  # the number of the job that the present call began with
        self._failure: Optional[BaseException] = None
        self.tries = Tries()
        self.closed = False
        self._over = False  # what is submitted from now on isn't sent

    @property
    def unfinished(self) -> bool:
        """Whether there are jobs whose result wasn't taken."""
        return self._taken < self._submitted

    @property
    def works(self) -> Tuple[Work, ...]:
        """What has no result yet, in order."""
        # By place: the user's thread may append meanwhile, but only the receiver takes away.
        return tuple(self._works[place] for place in range(len(self._works)))

    def add(self, work: Work) -> int:
        """What is about to be sent; its number."""
        if self.closed:
            raise ValueError("the stream is closed")
        if not self._over:
            self._works.append(work)
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

    def jobs_to_send(self) -> List[Job]:
        """What an Execute call begins with: all jobs without a result, from their beginning."""
        self._first_of_call = self._submitted - len(self._works)
        return [work.job_to_send() for work in self._works]

    def read(self, message: bytes) -> Optional[Result]:
        """Takes one message of the reply; the Result of the job that it completes, if it does."""
        if not self._works:
            raise reply_error("a message comes, but no job is under way")
        if not self._works[0].job.read(message):
            return None
        self.tries.got_on()
        return self._works.popleft().job.result

    def call_ended(self, failure: Optional[AclnnError]) -> None:
        """An Execute call ended, well or with a failure. Raises what is to be said about that."""
        if failure is not None:
            raise failure
        if self._works:
            raise reply_error(f"the stream ended with {len(self._works)} unfinished jobs")

    def ended(self, error: Optional[BaseException] = None) -> BaseException:
        """What further results are after the stream ended, with an error or with success."""
        self._over = True
        self._works.clear()
        if error is None:
            return ValueError("the stream is closed")
        if isinstance(error, AclnnError) and error.metadata.get("job", "").isdecimal():
            # The server counts the jobs of one call.
            error.metadata["job"] = str(self._first_of_call + int(error.metadata["job"]))
        return error
