// Verification: a share of the jobs on devices is run again on the CPU and compared.
//
// A device is believed as long as none of its results differs. The first one that does is told to the log,
// its device gets no more jobs, inputs and both outputs are kept as a capsule, and the job's attempt counts
// as lost with its device. Where a device differs from the CPU by design, its backend says so and nothing is
// judged.
//
// The CPU's run and the comparison take place where the CPU backend runs the job: on its threads, for tiny
// jobs on the thread that the device's answer came on.
#ifndef ACLNN_SERVER_DISPATCH_VERIFICATION_H
#define ACLNN_SERVER_DISPATCH_VERIFICATION_H

#include "server/dispatch/dispatcher.h"

struct verification;

// *verification is NULL if the options ask for none.
MUST_CHECK bool verification_create(const struct dispatcher_options *options,
                                    struct verification **verification, struct status *status);
void verification_destroy(struct verification *verification);
void verification_get_counts(const struct verification *verification, struct verification_counts *counts);

// Whether a new job of this plan is one of those that are verified. Not if the memory for it is more than the
// server has for all jobs: no job is refused for being chosen. Any thread.
bool verification_chooses(const struct dispatcher *dispatcher, const struct plan *plan);

// A device has ended the job's run well. Ends with job_attempt_settle, perhaps before this returns; the job
// may be gone then.
void verification_begin(struct job *job);

#endif
