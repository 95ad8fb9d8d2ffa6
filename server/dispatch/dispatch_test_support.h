// What the tests of the dispatcher share: a clock that the test turns, plans made by hand, and a backend that
// answers when and as the test says.
#ifndef ACLNN_SERVER_DISPATCH_DISPATCH_TEST_SUPPORT_H
#define ACLNN_SERVER_DISPATCH_DISPATCH_TEST_SUPPORT_H

#include "server/dispatch/dispatcher.h"

#include <stdatomic.h>

#define LIMIT_BYTES ((uint64_t)1 << 20)
#define QUEUE_MAX 4
#define QUEUE_TIME_NS 1000

// What a fake backend does when it is called.
enum fake_behaviour {
  FAKE_SUCCEEDS, // before the call returns
  FAKE_FAILS,    // before the call returns, with DEVICE_LOST and, of a run, `failure`
  FAKE_KEEPS,    // answers when the test calls fake_answer_plan or fake_answer_run
};

struct fake_backend {
  struct backend backend;
  enum fake_behaviour plan_behaviour, run_behaviour;
  enum backend_failure failure;  // of runs that fail
  enum reason plan_reason;       // of plans that fail; 0: DEVICE_LOST
  uint64_t plan_workspace_bytes; // what its plan says
  struct backend_plan_task *kept_plan;
  struct backend_run_task *kept_run;
  int plans, runs;
  int cancellations; // calls of cancelled
  bool *destroyed;   // set when it is
};

// A backend for the target that succeeds, with a plan function; the dispatcher frees it.
struct fake_backend *fake_backend_create(enum target target, uint32_t numerics);
void fake_answer_plan(struct fake_backend *fake, bool ok);
// On success the outputs are filled with 0x5a.
void fake_answer_run(struct fake_backend *fake, bool ok);

extern atomic_llong fake_clock_ns;
int64_t read_fake_clock(void *context);

// backends end with NULL. Budget: LIMIT_BYTES; address space: arena_bytes.
struct dispatcher *make_dispatcher_over(uint64_t arena_bytes, size_t queue_max, struct backend **backends);
// Likewise, with room enough and verification.
struct dispatcher *make_verifying_dispatcher(double fraction, const char *capsule_directory,
                                             struct backend **backends);
// With so large a budget, and one CPU backend.
struct dispatcher *make_large_dispatcher(uint64_t limit_bytes);
// With a budget of LIMIT_BYTES and room enough, a CPU and an NPU.
struct dispatcher *make_npu_dispatcher(struct fake_backend **cpu, struct fake_backend **npu);
// With a budget of LIMIT_BYTES and room enough, and one CPU backend that is written to *fake.
struct dispatcher *make_cpu_dispatcher(struct fake_backend **fake);

// An operator that has nothing but a name and, if so asked, a binding for devices.
const struct operator_definition *fake_operator(bool on_devices);

// A plan of tensors: an input that travels, one that doesn't, an output; and workspace on the CPU.
struct plan make_plan(int64_t input_bytes, int64_t output_bytes, uint64_t workspace_bytes);

void check_balance(struct dispatcher *dispatcher, uint64_t reserved_bytes, uint64_t used_bytes);

#endif
