// The worker as the server knows it: control messages on a pipe, jobs in the arena.
//
// The main thread runs the loop: it reads messages, answers pings and writes what the device's thread has to
// say. It never waits for the device, so that a busy worker still answers.
#ifndef ACLNN_SERVER_NPU_WORKER_SERVE_H
#define ACLNN_SERVER_NPU_WORKER_SERVE_H

#include "server/npu/worker/device_thread.h"

struct serve_settings {
  int pipe_descriptor;
  int arena_descriptor;
  const char *library_file; // as in device_thread.h
  const char *home;
  struct device_settings device;
  struct log log;
};

enum serve_exit {
  SERVE_STOPPED = 0,  // as the server asked, everything closed
  SERVE_UNUSABLE = 3, // the device can't be used; the server was told why
  SERVE_UNCLEAN = 4,  // stopped, but the device could not be closed, or something was left open on it
};

// Returns when the server said STOP or the device turned out to be unusable. Ends the process where there is
// nothing left to do in good order: with 0 at the end of the pipe, with 5 when the server sends what it must
// not send.
enum serve_exit serve(const struct serve_settings *settings);

#endif
