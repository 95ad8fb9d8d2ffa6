// A stream: tasks in order on a thread of its own.
//
// The first task that fails ends the stream's work: later ones are dropped unseen, and every wait answers
// with that failure until the stream is destroyed, as after an exception of a real device's core. Any thread
// may submit and wait; create and destroy belong to whoever owns the stream, with nobody else in a call.
#ifndef ACLNN_SERVER_NPU_EMULATOR_STREAM_H
#define ACLNN_SERVER_NPU_EMULATOR_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define STREAM_TEXT_BYTES 512

struct stream;

struct stream_task {
  // On the stream's thread; CANN's status, with a text if it isn't 0.
  int32_t (*run)(struct stream_task *task, struct stream *stream, char text[STREAM_TEXT_BYTES]);
  // The stream's last use of the task, whether it ran or not; any thread.
  void (*destroy)(struct stream_task *task);
  struct stream_task *_next;
};

// NULL if the system has no thread left.
struct stream *stream_create(void);
// Interrupts what sleeps, drops what hasn't begun and waits for the thread; false if something was left.
bool stream_destroy(struct stream *stream);

// The task is the stream's from here on.
void stream_submit(struct stream *stream, struct stream_task *task);

// Waits until everything submitted so far has ended; negative milliseconds: for ever. Returns the stream's
// failure with its text, 0 if there is none, or 507046 if the time is over.
int32_t stream_wait(struct stream *stream, int32_t milliseconds, char text[STREAM_TEXT_BYTES]);

// For running tasks: sleeps, negative milliseconds: for ever; ends early when the stream is destroyed.
void stream_sleep(struct stream *stream, int64_t milliseconds);

#endif
