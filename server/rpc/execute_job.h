// One job of an Execute call with all that it holds: executor, plan, memory, what has arrived and what was
// sent.
//
// Part of its call; used on the call's queue thread. Two things may be answered later and on another thread,
// through `answered`: planning and the dispatcher's waits. The call then brings the answer to its own thread.
#ifndef ACLNN_SERVER_RPC_EXECUTE_JOB_H
#define ACLNN_SERVER_RPC_EXECUTE_JOB_H

#include "server/rpc/execute_download.h"
#include "server/rpc/execute_upload.h"
#include "server/rpc/service.h"

struct execute_planning;

struct execute_job {
  struct service_context *context; // borrowed
  const char *identity;            // borrowed
  const void *stream;              // names the call: its jobs run in order
  // Answers JOB_WAITING, once, on any thread.
  void (*answered)(struct execute_job *job, bool ok);

  struct execute_planning *planning; // while the begin is turned into a plan
  struct executor *executor;         // held, if the begin named one
  struct job *job;                   // from the plan on
  codec_set reply_codecs;            // what the client decodes
  bool plan_in_reply;                // the begin was a request
  bool given_up;                     // only an answer that is owed keeps it
  struct execute_upload upload;
  struct execute_download download;
};

void execute_job_init(struct execute_job *job, struct service_context *context, const char *identity,
                      const void *stream, void (*answered)(struct execute_job *job, bool ok));

// Turns an ExecuteBegin into a planned job: reads it, holds its executor or plans its request. JOB_WAITING:
// answered comes, then execute_job_finish_planning says how it went. The bytes aren't kept.
enum job_progress execute_job_begin(struct execute_job *job, const uint8_t *begin, size_t size,
                                    struct status *status);
MUST_CHECK bool execute_job_finish_planning(struct execute_job *job, bool ok, struct status *status);

// The dispatcher's steps; after JOB_FAILED or answered(false), job_status(job->job) says why.
enum job_progress execute_job_reserve(struct execute_job *job);
enum job_progress execute_job_submit(struct execute_job *job);

// Copies one chunk to its place. scratch holds chunk->data_bytes.
MUST_CHECK bool execute_job_take(struct execute_job *job, const struct tensor_chunk *chunk, uint8_t *scratch,
                                 size_t scratch_bytes, struct status *status);

// Its executor is used up.
void execute_job_consume(struct execute_job *job);

// Gives back all that the job has; with `waiting` what may be given back before the answer has come. Can be
// called again, also on an empty job.
void execute_job_give_up(struct execute_job *job, bool waiting);

#endif
