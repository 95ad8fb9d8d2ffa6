// Random walks: whatever happens in whatever order, the promises hold and the call ends.
#include "server/rpc/execute_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct walk {
  uint64_t random;
  struct execute_state state;
  unsigned asked;          // one of the four things that may be answered at once, not answered yet
  uint64_t asked_job;      // for which job
  bool message;            // a message is held
  uint64_t turns;          // that were had for one that was held
  bool things[2];          // a job's place holds something
  uint64_t consumed_until; // jobs below have been consumed
  uint64_t ended_until;    // jobs below have ended well
  uint64_t answered_until; // jobs below have been answered in full
  bool looks_first;        // the message under way isn't built yet
  bool sends_last;         // the message under way holds the last byte of its job
  bool followed;           // and the next job's comes after it
  bool status, released;
};

static unsigned draw(struct walk *walk, unsigned below) {
  walk->random = walk->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(walk->random >> 33) % below;
}

static uint64_t last_job_of(const struct walk *walk) {
  return walk->state.first_job + walk->state.job_count - 1;
}

static void note_consumption(struct walk *walk) {
  for (uint64_t job = walk->consumed_until; job <= last_job_of(walk) && walk->state.job_count > 0; ++job) {
    if (execute_job(&walk->state, job)->consumed) {
      assert_true(walk->ended_until >= job); // all earlier ones
      walk->consumed_until = job + 1;
    }
  }
}

static void build_message(struct walk *walk) {
  walk->looks_first = false;
  walk->sends_last =
      execute_job(&walk->state, walk->state.first_job)->stage == EXECUTE_JOB_ENDED && draw(walk, 2) == 0;
  walk->followed = walk->sends_last && execute_is_followed(&walk->state);
  if (walk->sends_last && execute_close_with_send(&walk->state)) {
    walk->status = true;
  }
}

// What the shell would do.
static void obey(struct walk *walk, unsigned todo) {
  static const unsigned at_once = EXECUTE_DO_BEGIN | EXECUTE_DO_RESERVE | EXECUTE_DO_TAKE | EXECUTE_DO_SUBMIT;
  assert_false(walk->released);
  unsigned asked = todo & at_once;
  assert_int_equal(asked & (asked - 1), 0);
  if (todo & EXECUTE_DO_DROP) {
    for (size_t i = 0; i < 2; ++i) {
      if (walk->state.jobs[i].stage == EXECUTE_JOB_NONE) {
        walk->things[i] = walk->state.jobs[i].waiting;
      }
    }
  }
  if (todo & EXECUTE_DO_DISCARD) {
    walk->message = false;
  }
  if (todo & EXECUTE_DO_CONSUME) {
    note_consumption(walk);
  }
  if (todo & EXECUTE_DO_RECEIVE) {
    assert_false(walk->message || walk->status || (walk->state.pending & EXECUTE_PENDING_TURN) != 0);
  }
  if (todo & EXECUTE_DO_SEND) {
    assert_int_equal(walk->state.first_job, walk->answered_until);
    assert_false(walk->status);
    walk->looks_first = draw(walk, 2) == 0;
    if (!walk->looks_first) {
      build_message(walk);
    }
  }
  if (todo & EXECUTE_DO_STATUS) {
    assert_false(walk->status);
    walk->status = true;
  }
  if (asked != 0) {
    walk->asked = asked;
    walk->asked_job = last_job_of(walk);
    if (asked == EXECUTE_DO_SUBMIT) {
      walk->asked_job = walk->ended_until; // only the first that hasn't ended may run
      assert_int_equal(execute_job(&walk->state, walk->asked_job)->stage, EXECUTE_JOB_RUNNING);
      assert_true(walk->consumed_until > walk->asked_job);
    }
    if (asked == EXECUTE_DO_BEGIN) {
      assert_false(walk->things[walk->asked_job % 2]);
      walk->things[walk->asked_job % 2] = true;
    }
  }
  if (todo & EXECUTE_DO_RELEASE) {
    assert_false(walk->message || walk->things[0] || walk->things[1]);
    assert_int_equal(walk->state.pending, 0);
    walk->released = true;
  }
}

static unsigned good_answer(struct walk *walk, uint64_t job, enum execute_job_stage stage) {
  switch (stage) {
  case EXECUTE_JOB_PLANNING:
    return execute_planned(&walk->state, job);
  case EXECUTE_JOB_RESERVING:
    return execute_reserved(&walk->state, job);
  default:
    if (execute_job(&walk->state, job)->stage == EXECUTE_JOB_RUNNING) {
      walk->ended_until = job + 1;
    }
    return execute_ended(&walk->state, job);
  }
}

// The answer to what was asked, at once or promised for later.
static void answer_asked(struct walk *walk) {
  unsigned asked = walk->asked;
  uint64_t job = walk->asked_job;
  walk->asked = 0;
  if (draw(walk, 30) == 0) {
    obey(walk, execute_failed(&walk->state, job));
  } else if (asked == EXECUTE_DO_TAKE && draw(walk, 3) == 0) {
    execute_take_paused(&walk->state);
  } else if (asked == EXECUTE_DO_TAKE) {
    obey(walk, execute_taken(&walk->state, draw(walk, 2) == 0));
  } else if (draw(walk, 2) == 0) {
    execute_job_waits(&walk->state, job);
  } else {
    obey(walk, good_answer(walk, job, execute_job(&walk->state, job)->stage));
  }
}

static void receive_something(struct walk *walk, bool only_failures) {
  unsigned what = draw(walk, 60);
  if (only_failures || what == 0) {
    obey(walk, execute_receive_failed(&walk->state));
  } else if (what == 1) {
    obey(walk, execute_half_closed(&walk->state));
  } else {
    // Mostly what may come: a begin between jobs, chunks within one.
    bool within = execute_current_job(&walk->state) == last_job_of(walk) && walk->state.job_count > 0;
    enum execute_content content = within ? EXECUTE_CONTENT_CHUNKS : EXECUTE_CONTENT_BEGIN;
    walk->message = true;
    obey(walk, execute_received(&walk->state, what == 2 ? draw(walk, 4) : content));
  }
}

static void finish_sending(struct walk *walk, bool only_failures) {
  bool listened_to = walk->state.phase <= EXECUTE_FAILING;
  if (walk->looks_first && listened_to) {
    build_message(walk);
    return;
  }
  if (walk->looks_first || only_failures || draw(walk, 60) == 0) {
    obey(walk, execute_send_failed(&walk->state));
    return;
  }
  if (walk->sends_last && walk->state.job_count > 0) {
    ++walk->answered_until;
  }
  unsigned todo = execute_sent(&walk->state, walk->sends_last);
  // What was held back for the next job's reply leaves with it.
  assert_true(!walk->followed || !listened_to || (todo & EXECUTE_DO_SEND) != 0);
  obey(walk, todo);
}

static void time_out(struct walk *walk) {
  if (execute_receive_is_timed(&walk->state) && draw(walk, 2) == 0) {
    obey(walk, execute_receive_timed_out(&walk->state));
  } else if (execute_send_is_timed(&walk->state)) {
    obey(walk, execute_send_timed_out(&walk->state));
  }
}

static void answer_later(struct walk *walk) {
  size_t place = draw(walk, 2);
  if (!walk->state.jobs[place].waiting) {
    place = 1 - place;
  }
  if (!walk->state.jobs[place].waiting) {
    return;
  }
  // The number that this place's job has or had.
  uint64_t job = walk->state.first_job % 2 == place ? walk->state.first_job : walk->state.first_job + 1;
  bool dropped = walk->state.jobs[place].stage == EXECUTE_JOB_NONE;
  obey(walk, draw(walk, 12) == 0 || dropped ? execute_failed(&walk->state, job)
                                            : good_answer(walk, job, walk->state.jobs[place].stage));
}

static void have_a_turn(struct walk *walk) {
  unsigned todo = execute_turned(&walk->state);
  assert_int_equal((todo & EXECUTE_DO_TAKE) != 0, walk->message);
  walk->turns += walk->message ? 1 : 0;
  obey(walk, todo);
}

static void take_a_step(struct walk *walk, bool ending) {
  if (walk->asked != 0) {
    answer_asked(walk);
    return;
  }
  unsigned pending = walk->state.pending;
  switch (draw(walk, 9)) {
  case 0:
  case 1:
    if (pending & EXECUTE_PENDING_RECEIVE) {
      receive_something(walk, ending);
    }
    break;
  case 2:
  case 3:
    if (pending & EXECUTE_PENDING_SEND) {
      finish_sending(walk, ending);
    }
    break;
  case 4:
    answer_later(walk);
    break;
  case 5:
    if (pending & EXECUTE_PENDING_STATUS) {
      obey(walk, execute_status_sent(&walk->state));
    }
    break;
  case 6:
    if ((pending & EXECUTE_PENDING_CLOSE) && (ending || draw(walk, 80) == 0)) {
      bool ours = walk->state.phase == EXECUTE_CLOSING || walk->state.closes_with_send;
      obey(walk, execute_closed(&walk->state, !ours || draw(walk, 2) == 0));
    }
    break;
  case 7:
    if (pending & EXECUTE_PENDING_TURN) {
      have_a_turn(walk);
    }
    break;
  default:
    if (draw(walk, 20) == 0) {
      draw(walk, 4) == 0 ? obey(walk, execute_drain(&walk->state)) : time_out(walk);
    }
    break;
  }
}

static void random_walks_keep_the_promises_and_end(void **unused) {
  (void)unused;
  enum { WALKS = 20000, STEPS = 200, STEPS_TO_END = 2000 };
  uint64_t jobs = 0, turns = 0;
  for (uint64_t seed = 1; seed <= WALKS; ++seed) {
    struct walk walk = {.random = seed};
    obey(&walk, execute_start(&walk.state));
    for (int step = 0; step < STEPS && !walk.released; ++step) {
      take_a_step(&walk, false);
      // A call that isn't over waits for something.
      assert_true(walk.released || walk.asked != 0 || walk.state.pending != 0 || walk.state.jobs[0].waiting ||
                  walk.state.jobs[1].waiting);
    }
    for (int step = 0; step < STEPS_TO_END && !walk.released; ++step) {
      take_a_step(&walk, true);
    }
    assert_true(walk.released);
    jobs += walk.answered_until;
    turns += walk.turns;
  }
  // The walks did get somewhere.
  assert_true(jobs > WALKS && turns > WALKS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_walks_keep_the_promises_and_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
