// Devices that compute with the operator's own kernel and now and then lie.
#include "server/dispatch/dispatch_test_support.h"

#include "kernels/half.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef ACLNN_SANITIZED
#define GOOD_JOBS 10000
#else
#define GOOD_JOBS 100000
#endif

#define PLANES 2
#define HEIGHT 4
#define WIDTH 4
#define OUTPUTS 8 // elements of gradOutput

// What a device does to its result.
enum lie { TELLS_THE_TRUTH, FLIPS_A_BIT, IS_OFF_BY_A_LITTLE, FLIPS_THE_FIRST_SIGN };

struct kernel_backend {
  struct backend backend;
  enum lie lie;
  bool keeps; // the test answers
  bool fails;
  struct backend_run_task *kept;
  int32_t device; // that the next run takes place on
  int runs, quarantines;
  int32_t quarantined; // the last one
  bool up;             // else there is no device for jobs that may move
  bool comparable, exactly;
  uint64_t random;
};

static uint64_t next_random(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 33;
}

static void lie(struct kernel_backend *kernel, const struct operator_run *run) {
  const struct plan *plan = run->plan;
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    uint8_t *storage = run->storages[tensor->parameter];
    if (tensor->direction != DIRECTION_OUTPUT) {
      continue;
    }
    if (kernel->lie == FLIPS_A_BIT) {
      storage[next_random(&kernel->random) % (uint64_t)tensor->storage_bytes] ^= 1u << (kernel->random & 7);
    } else if (kernel->lie == FLIPS_THE_FIRST_SIGN) {
      storage[data_type_bytes(plan_tensor_desc(plan, i)->data_type) - 1] ^= 0x80;
    } else if (kernel->lie == IS_OFF_BY_A_LITTLE) {
      float *values = (float *)(void *)storage;
      for (int64_t j = 0; j < tensor->storage_bytes / 4; j++) {
        values[j] *= 1.00001f;
      }
    }
  }
}

static void answer(struct kernel_backend *kernel, struct backend_run_task *task) {
  task->started_ns = read_fake_clock(NULL);
  bool ok = !kernel->fails && task->run.plan->definition->run(&task->run, &task->status);
  if (kernel->fails) {
    status_fail(&task->status, REASON_INTERNAL, NULL, "told to fail");
  }
  task->finished_ns = task->started_ns + 10;
  if (ok) {
    lie(kernel, &task->run);
  }
  task->done(task, ok);
}

static void kernel_run(struct backend *backend, struct backend_run_task *task) {
  struct kernel_backend *kernel = (struct kernel_backend *)backend;
  task->device = kernel->device;
  if (!kernel->up && task->may_move) {
    task->failure = BACKEND_FAILURE_NO_DEVICE;
    status_fail(&task->status, REASON_DEVICE_LOST, NULL, "no device is up");
    task->done(task, false);
    return;
  }
  kernel->runs++;
  if (kernel->keeps) {
    kernel->kept = task;
  } else {
    answer(kernel, task);
  }
}

static void answer_kept(struct kernel_backend *kernel) {
  struct backend_run_task *task = kernel->kept;
  assert_non_null(task);
  kernel->kept = NULL;
  answer(kernel, task);
}

static void kernel_quarantine(struct backend *backend, int32_t device, const char *why) {
  struct kernel_backend *kernel = (struct kernel_backend *)backend;
  assert_non_null(strstr(why, "gradInput"));
  kernel->quarantines++;
  kernel->quarantined = device;
  kernel->up = false;
}

static bool kernel_is_comparable(struct backend *backend, const struct backend_run_task *task,
                                 bool *exactly) {
  struct kernel_backend *kernel = (struct kernel_backend *)backend;
  assert_int_equal(task->run.plan->target, TARGET_NPU);
  *exactly = kernel->exactly;
  return kernel->comparable;
}

static size_t kernel_describe(struct backend *backend, struct backend_device *devices, size_t devices_max) {
  (void)backend;
  assert_true(devices_max >= 8);
  for (size_t i = 0; i < 8; i++) {
    devices[i] = (struct backend_device){.detail = "a fake"};
    snprintf(devices[i].name, sizeof devices[i].name, "fake-%zu", i);
  }
  return 8;
}

static void kernel_destroy(struct backend *backend) {
  free(backend);
}

static struct kernel_backend *kernel_create(enum target target) {
  struct kernel_backend *kernel = calloc(1, sizeof *kernel);
  kernel->backend = (struct backend){.target = target,
                                     .numerics = 1u << NUMERICS_DEVICE | 1u << NUMERICS_EXACT,
                                     .run = kernel_run,
                                     .destroy = kernel_destroy};
  if (target == TARGET_NPU) {
    kernel->backend.quarantine = kernel_quarantine;
    kernel->backend.describe_devices = kernel_describe;
  }
  kernel->up = true;
  kernel->random = 1;
  return kernel;
}

struct setting {
  struct kernel_backend *cpu, *npu;
  struct dispatcher *dispatcher;
  struct plan plan;
  char directory[64];
  uint64_t random;
  struct job *job;
  int finished_calls;
  bool ok;
};

static void on_finished(void *context, bool ok) {
  struct setting *setting = context;
  setting->finished_calls++;
  setting->ok = ok;
}

static void add_tensor(struct operator_request *wanted, const char *name, enum data_type data_type,
                       int64_t height, int64_t width) {
  struct argument *argument = &wanted->arguments[wanted->argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = PARAMETER_KIND_TENSOR;
  argument->value.tensor =
      (struct tensor_desc){.data_type = data_type, .rank = 3, .shape = {PLANES, height, width}};
}

static struct plan plan_backward(enum data_type data_type, enum numerics numerics, bool automatic) {
  struct operator_request wanted = {.operator_name = "aclnnAdaptiveMaxPool2dBackward", .numerics = numerics};
  add_tensor(&wanted, "gradOutput", data_type, 2, 2);
  add_tensor(&wanted, "self", data_type, HEIGHT, WIDTH);
  add_tensor(&wanted, "indices", DATA_TYPE_INT32, 2, 2);
  add_tensor(&wanted, "gradInput", data_type, HEIGHT, WIDTH);
  struct plan plan;
  struct status status;
  assert_true(plan_create(&wanted, &plan, &status));
  plan.target = TARGET_NPU;
  plan.automatic = automatic;
  return plan;
}

static void set_up(struct setting *setting, double fraction, enum numerics numerics, bool automatic) {
  *setting = (struct setting){.cpu = kernel_create(TARGET_CPU),
                              .npu = kernel_create(TARGET_NPU),
                              .plan = plan_backward(DATA_TYPE_FLOAT, numerics, automatic),
                              .directory = "/tmp/verification_test_XXXXXX",
                              .random = 7};
  const char *directory = mkdtemp(setting->directory);
  assert_non_null(directory);
  struct backend *backends[] = {&setting->cpu->backend, &setting->npu->backend, NULL};
  setting->dispatcher = make_verifying_dispatcher(fraction, directory, backends);
}

// Removes the capsules and returns how many there were.
static int take_capsules(const char *directory) {
  DIR *opened = opendir(directory);
  assert_non_null(opened);
  int count = 0;
  const struct dirent *entry;
  while ((entry = readdir(opened)) != NULL) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] != '.') {
      assert_non_null(strstr(entry->d_name, ".capsule"));
      assert_null(strstr(entry->d_name, "partial"));
      assert_int_equal(unlink(path), 0);
      count++;
    }
  }
  closedir(opened);
  return count;
}

static void tear_down(struct setting *setting) {
  check_balance(setting->dispatcher, 0, 0);
  dispatcher_destroy(setting->dispatcher);
  take_capsules(setting->directory);
  assert_int_equal(rmdir(setting->directory), 0);
}

static void check_counts(const struct setting *setting, uint64_t agreed, uint64_t unjudged,
                         uint64_t differed) {
  struct verification_counts counts;
  dispatcher_get_verification(setting->dispatcher, &counts);
  assert_int_equal(counts.agreed, agreed);
  assert_int_equal(counts.unjudged, unjudged);
  assert_int_equal(counts.differed, differed);
}

// Numbers of all kinds, a NaN and an infinity now and then.
static float any_value(struct setting *setting) {
  static const float specials[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3e38f};
  uint64_t random = next_random(&setting->random);
  return random % 32 < 7 ? specials[random % 32] : (float)(int64_t)(random % 20001 - 10000) / 64;
}

static void fill_inputs(struct setting *setting) {
  const struct plan *plan = job_plan(setting->job);
  float *gradients = (float *)(void *)job_tensor_data(setting->job, 0);
  uint16_t *halves = (uint16_t *)gradients;
  int32_t *indices = (int32_t *)(void *)job_tensor_data(setting->job, 2);
  for (size_t i = 0; i < OUTPUTS; i++) {
    float value = any_value(setting);
    indices[i] = (int32_t)(next_random(&setting->random) % (HEIGHT * WIDTH));
    if (plan_tensor_desc(plan, 0)->data_type == DATA_TYPE_FLOAT) {
      gradients[i] = value;
    } else {
      halves[i] = plan_tensor_desc(plan, 0)->data_type == DATA_TYPE_BF16 ? bf16_from_float(value)
                                                                         : fp16_from_float(value);
    }
  }
}

static void start(struct setting *setting) {
  struct job_callbacks callbacks = {.finished = on_finished, .context = setting};
  setting->job = job_create(setting->dispatcher, &setting->plan, NULL, &callbacks);
  assert_int_equal(job_reserve(setting->job), JOB_READY);
  fill_inputs(setting);
}

// Runs one job to its end.
static bool run_job(struct setting *setting, struct job_summary *summary) {
  start(setting);
  bool ok = job_submit(setting->job) == JOB_READY;
  if (ok) {
    job_get_summary(setting->job, summary);
  } else {
    assert_int_equal(job_status(setting->job)->reason, REASON_DEVICE_LOST);
  }
  job_destroy(setting->job);
  return ok;
}

static void good_devices_raise_no_alarm(void **state) {
  (void)state;
  static const enum data_type types[] = {DATA_TYPE_FLOAT, DATA_TYPE_FLOAT16, DATA_TYPE_BF16};
  static const enum numerics numerics[] = {NUMERICS_EXACT, NUMERICS_DEVICE};
  struct setting setting;
  struct job_summary summary;
  set_up(&setting, 1, NUMERICS_EXACT, true);
  for (int i = 0; i < GOOD_JOBS; i++) {
    if (i % (GOOD_JOBS / 10) == 0) {
      int part = i / (GOOD_JOBS / 10);
      setting.plan = plan_backward(types[part % 3], numerics[part % 2], part % 4 < 2);
    }
    assert_true(run_job(&setting, &summary));
    assert_int_equal(summary.target, TARGET_NPU);
    assert_int_equal(summary.attempts, 1);
  }
  check_counts(&setting, GOOD_JOBS, 0, 0);
  assert_int_equal(setting.npu->quarantines, 0);
  assert_int_equal(setting.cpu->runs, GOOD_JOBS);
  assert_int_equal(take_capsules(setting.directory), 0);
  tear_down(&setting);
}

static void device_that_flips_bits_is_quarantined_within_a_thousand_jobs(void **state) {
  (void)state;
  static const int good_jobs[] = {0, 1, 99, 500, 12345};
  for (size_t i = 0; i < sizeof good_jobs / sizeof good_jobs[0]; i++) {
    struct setting setting;
    struct job_summary summary;
    set_up(&setting, 0.01, NUMERICS_EXACT, true);
    setting.npu->device = 3;
    for (int job = 0; job < good_jobs[i]; job++) {
      assert_true(run_job(&setting, &summary));
    }
    assert_int_equal(setting.npu->quarantines, 0);
    setting.npu->lie = FLIPS_A_BIT;
    int jobs = 0;
    while (setting.npu->quarantines == 0) {
      jobs++;
      assert_true(jobs <= 1000);
      assert_true(run_job(&setting, &summary));
    }
    assert_int_equal(setting.npu->quarantined, 3);
    assert_int_equal(summary.target, TARGET_CPU); // the job that found it out
    assert_int_equal(summary.numerics, NUMERICS_EXACT);
    assert_int_equal(summary.attempts, 2);
    assert_int_equal(take_capsules(setting.directory), 1);
    assert_true(run_job(&setting, &summary)); // the others go on without it
    assert_int_equal(summary.target, TARGET_CPU);
    assert_int_equal(summary.attempts, 1);
    tear_down(&setting);
  }
}

static void wanted_share_of_jobs_is_verified(void **state) {
  (void)state;
  static const double fractions[] = {0, 0.01, 0.25, 0.5, 0.9, 1};
  for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
    struct setting setting;
    struct job_summary summary;
    set_up(&setting, fractions[i], NUMERICS_EXACT, true);
    for (int job = 0; job < 1000; job++) {
      assert_true(run_job(&setting, &summary));
    }
    assert_true(fabs(setting.cpu->runs - 1000 * fractions[i]) <= 3);
    check_counts(&setting, (uint64_t)setting.cpu->runs, 0, 0);
    tear_down(&setting);
  }
}

static void requested_device_that_lies_is_lost_three_times(void **state) {
  (void)state;
  struct setting setting;
  struct job_summary summary;
  set_up(&setting, 1, NUMERICS_DEVICE, false);
  setting.npu->lie = FLIPS_THE_FIRST_SIGN;
  setting.npu->backend.is_comparable = kernel_is_comparable;
  setting.npu->comparable = setting.npu->exactly = true;
  assert_false(run_job(&setting, &summary));
  assert_int_equal(setting.npu->runs, 3);
  assert_int_equal(setting.npu->quarantines, 3);
  assert_int_equal(take_capsules(setting.directory), 3);
  setting.npu->lie = TELLS_THE_TRUTH; // another device
  assert_true(run_job(&setting, &summary));
  assert_int_equal(summary.attempts, 1);
  check_counts(&setting, 1, 0, 3);
  tear_down(&setting);
}

static void device_is_judged_as_closely_as_it_promises(void **state) {
  (void)state;
  static const struct {
    enum numerics numerics;
    bool asked, comparable, exactly; // what the backend says, if it is asked
    enum lie lie;
    int agreed, unjudged, differed;
  } cases[] = {
      {NUMERICS_DEVICE, false, false, false, IS_OFF_BY_A_LITTLE, 1, 0, 0},
      {NUMERICS_EXACT, false, false, false, IS_OFF_BY_A_LITTLE, 0, 0, 1},
      {NUMERICS_DEVICE, true, true, true, IS_OFF_BY_A_LITTLE, 0, 0, 1},
      {NUMERICS_DEVICE, true, true, false, IS_OFF_BY_A_LITTLE, 1, 0, 0},
      {NUMERICS_DEVICE, true, false, false, FLIPS_A_BIT, 0, 1, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct setting setting;
    struct job_summary summary;
    set_up(&setting, 1, cases[i].numerics, true);
    setting.random = 1; // ordinary numbers
    setting.npu->lie = cases[i].lie;
    setting.npu->comparable = cases[i].comparable;
    setting.npu->exactly = cases[i].exactly;
    setting.npu->backend.is_comparable = cases[i].asked ? kernel_is_comparable : NULL;
    assert_true(run_job(&setting, &summary));
    check_counts(&setting, (uint64_t)cases[i].agreed, (uint64_t)cases[i].unjudged,
                 (uint64_t)cases[i].differed);
    assert_int_equal(summary.target, cases[i].differed ? TARGET_CPU : TARGET_NPU);
    tear_down(&setting);
  }
}

static void verified_job_reserves_what_the_cpu_needs(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 1, NUMERICS_DEVICE, false);
  setting.plan.host_workspace_bytes = 640;
  start(&setting);
  // gradOutput and indices are shorter than a line of 64, gradInput is two.
  check_balance(setting.dispatcher, 64 + 64 + 640 + 128 + 128, 64 + 64 + 640 + 128 + 128);
  assert_int_equal(plan_job_bytes(&setting.plan), 64 + 64 + 128);
  assert_int_equal(job_submit(setting.job), JOB_READY);
  check_balance(setting.dispatcher, 128, 128); // only the output is left
  job_destroy(setting.job);

  // Without room for that it is a job like any other.
  setting.plan.host_workspace_bytes = LIMIT_BYTES;
  start(&setting);
  assert_int_equal(job_submit(setting.job), JOB_READY);
  job_destroy(setting.job);
  check_counts(&setting, 1, 0, 0);
  tear_down(&setting);
}

static void job_ends_when_the_cpu_has_answered(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 1, NUMERICS_EXACT, true);
  setting.npu->keeps = setting.cpu->keeps = true;
  start(&setting);
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  answer_kept(setting.npu);
  assert_int_equal(setting.finished_calls, 0);
  atomic_fetch_add(&fake_clock_ns, 300);
  answer_kept(setting.cpu);
  assert_int_equal(setting.finished_calls, 1);
  assert_true(setting.ok);
  struct job_summary summary;
  job_get_summary(setting.job, &summary);
  assert_int_equal(summary.compute_ns, 10);
  assert_int_equal(summary.queue_ns, 290); // the CPU's run is no part of the computation
  assert_int_equal(summary.target, TARGET_NPU);
  job_destroy(setting.job);
  tear_down(&setting);
}

static void job_can_be_cancelled_while_it_is_verified(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 1, NUMERICS_EXACT, true);
  setting.cpu->keeps = true;
  start(&setting);
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  job_cancel(setting.job);
  assert_int_equal(setting.finished_calls, 0); // the memory is in use
  answer_kept(setting.cpu);
  assert_int_equal(setting.finished_calls, 1);
  assert_false(setting.ok);
  assert_int_equal(job_status(setting.job)->reason, REASON_CANCELLED);
  job_destroy(setting.job);
  tear_down(&setting);
}

static void cpu_that_fails_proves_nothing(void **state) {
  (void)state;
  struct setting setting;
  struct job_summary summary;
  set_up(&setting, 1, NUMERICS_EXACT, true);
  setting.cpu->fails = true;
  assert_true(run_job(&setting, &summary));
  assert_int_equal(summary.target, TARGET_NPU);
  check_counts(&setting, 0, 1, 0);
  assert_int_equal(setting.npu->quarantines, 0);
  tear_down(&setting);
}

static void jobs_of_the_cpu_are_not_verified(void **state) {
  (void)state;
  struct setting setting;
  struct job_summary summary;
  set_up(&setting, 1, NUMERICS_EXACT, true);
  setting.plan.target = TARGET_CPU;
  assert_true(run_job(&setting, &summary));
  setting.plan.target = TARGET_NPU;
  setting.npu->up = false; // moves there
  assert_true(run_job(&setting, &summary));
  assert_int_equal(setting.cpu->runs, 2);
  check_counts(&setting, 0, 0, 0);
  tear_down(&setting);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_devices_raise_no_alarm),
      cmocka_unit_test(device_that_flips_bits_is_quarantined_within_a_thousand_jobs),
      cmocka_unit_test(wanted_share_of_jobs_is_verified),
      cmocka_unit_test(requested_device_that_lies_is_lost_three_times),
      cmocka_unit_test(device_is_judged_as_closely_as_it_promises),
      cmocka_unit_test(verified_job_reserves_what_the_cpu_needs),
      cmocka_unit_test(job_ends_when_the_cpu_has_answered),
      cmocka_unit_test(job_can_be_cancelled_while_it_is_verified),
      cmocka_unit_test(cpu_that_fails_proves_nothing),
      cmocka_unit_test(jobs_of_the_cpu_are_not_verified),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
