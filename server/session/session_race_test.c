#include "server/session/session_test_support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define RACERS 64
#define RACE_HANDLES 24
#ifdef ACLNN_SANITIZED
#define RACE_STEPS 300
#else
#define RACE_STEPS 3000
#endif

struct race {
  struct session_table *table;
  struct session_grant grants[RACE_HANDLES];
  atomic_int uses[RACE_HANDLES];
  bool repeatable[RACE_HANDLES];
  bool destroys; // whether executors may also end in another way
  atomic_int wrong;
};

struct racer {
  struct race *race;
  pthread_t thread;
  uint64_t random;
};

static uint64_t random_next(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  return *random >> 33;
}

static void hold_in_race(struct race *race, size_t i, bool final) {
  struct executor *executor;
  struct session_foreign foreign;
  struct status status;
  const struct session_grant *grant = &race->grants[i];
  enum session_hold_outcome outcome =
      session_hold(race->table, grant->handle, grant->handle_bytes, "me", &executor, &foreign, &status);
  if (outcome == SESSION_FOREIGN) {
    struct plan plan = make_plan();
    bool ok = session_adopt(race->table, grant->handle, grant->handle_bytes, "me", &plan, &executor, &status);
    outcome = ok ? SESSION_HELD : SESSION_REFUSED;
  }
  if (outcome == SESSION_HELD) {
    if (executor_plan(executor)->workspace_bytes != WORKSPACE_BYTES) {
      atomic_fetch_add(&race->wrong, 1);
    }
    if (final) {
      session_consume(race->table, executor);
      atomic_fetch_add(&race->uses[i], 1);
    }
    session_release(race->table, executor);
  } else if (status.reason != REASON_EXECUTOR_CONSUMED && status.reason != REASON_EXECUTOR_EXPIRED) {
    atomic_fetch_add(&race->wrong, 1);
  }
}

static void *run_racer(void *argument) {
  struct racer *racer = argument;
  struct race *race = racer->race;
  for (int step = 0; step < RACE_STEPS; step++) {
    size_t i = random_next(&racer->random) % RACE_HANDLES;
    uint64_t choice = random_next(&racer->random) % 64;
    if (race->destroys && choice == 0) {
      struct status status;
      if (!session_destroy(race->table, race->grants[i].handle, race->grants[i].handle_bytes, "me",
                           &status)) {
        atomic_fetch_add(&race->wrong, 1);
      }
    } else if (race->destroys && choice == 1) {
      pass_ms(1);
      session_table_expire(race->table);
    } else {
      hold_in_race(race, i, choice < 6);
    }
  }
  return NULL;
}

// Handles of `origin` raced for at `table`, which may be the same.
static void run_race(struct session_table *origin, struct session_table *table, bool destroys) {
  struct race race = {.table = table, .destroys = destroys};
  struct racer racers[RACERS];
  for (size_t i = 0; i < RACE_HANDLES; i++) {
    race.repeatable[i] = i % 4 == 3;
    race.grants[i] = insert(origin, race.repeatable[i], destroys ? 1 + (int64_t)i * 3 : 0);
  }
  for (size_t i = 0; i < RACERS; i++) {
    racers[i] = (struct racer){.race = &race, .random = i + 1};
    assert_int_equal(pthread_create(&racers[i].thread, NULL, run_racer, &racers[i]), 0);
  }
  for (size_t i = 0; i < RACERS; i++) {
    pthread_join(racers[i].thread, NULL);
  }
  assert_int_equal(race.wrong, 0);
  for (size_t i = 0; i < RACE_HANDLES; i++) {
    if (!destroys) {
      hold_in_race(&race, i, true); // in case that nobody did
    }
    if (!race.repeatable[i]) {
      assert_true(race.uses[i] <= 1);
      assert_true(destroys || race.uses[i] == 1);
    }
  }
  pass_ms(TTL_MAX_MS);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  struct session_state state;
  session_table_get_state(table, &state);
  check_counts(table, 0, state.created, state.consumed, state.destroyed, state.expired);
  int one_shot_uses = 0;
  for (size_t i = 0; i < RACE_HANDLES; i++) {
    one_shot_uses += race.repeatable[i] ? 0 : race.uses[i];
  }
  // An executor that was destroyed or expired while its last job held it was used all the same.
  assert_true(destroys || state.consumed == (uint64_t)one_shot_uses);
}

static void racing_jobs_use_each_one_shot_once(void **state) {
  (void)state;
  for (int destroys = 0; destroys < 2; destroys++) {
    struct session_table *table = make_first_table(RACE_HANDLES);
    run_race(table, table, destroys);
    session_table_destroy(table);
  }
}

static void racing_jobs_use_each_foreign_one_shot_once(void **state) {
  (void)state;
  for (int destroys = 0; destroys < 2; destroys++) {
    struct session_table *origin = make_first_table(RACE_HANDLES), *table = make_table(RACE_HANDLES, 1);
    run_race(origin, table, destroys);
    session_table_destroy(table);
    session_table_destroy(origin);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(racing_jobs_use_each_one_shot_once),
      cmocka_unit_test(racing_jobs_use_each_foreign_one_shot_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
