// What server and NPU worker tell each other over their pipe.
//
// Plain values and their encoding: a frame is a length, a kind and a payload of fixed-size little-endian
// fields and bounded byte strings. Tensor bytes never travel here: messages name places in the arena, which
// both sides map, and both check them. A reader trusts nothing: a frame that isn't exactly right ends the
// connection, on either side. No memory of its own but the reader's buffer; a reader or writer belongs to one
// thread.
#ifndef ACLNN_SERVER_NPU_CONTROL_MESSAGE_H
#define ACLNN_SERVER_NPU_CONTROL_MESSAGE_H

#include "kernels/npu_binding.h"
#include "kernels/operator.h"
#include "kernels/status.h"

// Both sides are built together; a worker of another build is refused.
#define CONTROL_VERSION 1
// No message is longer: a request with the most arguments fits twice.
#define CONTROL_FRAME_BYTES_MAX 16384

// The worker's descriptors: the pipe and the arena.
#define CONTROL_PIPE_DESCRIPTOR 0
#define CONTROL_ARENA_DESCRIPTOR 3

enum control_kind {
  // From the server.
  CONTROL_START = 1, // the first one: what the worker needs to know before it opens its device
  CONTROL_PLAN = 2,  // phase 1 alone; answered by PLANNED
  CONTROL_RUN = 3,   // both phases; answered by FINISHED
  CONTROL_PING = 4,  // answered by PONG
  CONTROL_STOP = 5,  // finish what was begun, close the device and exit with 0
  // From the worker.
  CONTROL_READY = 16,    // the device is open and has passed its probe
  CONTROL_UNUSABLE = 17, // it can't be used; the worker then exits
  CONTROL_PLANNED = 18,
  CONTROL_FINISHED = 19,
  CONTROL_PONG = 20,
};

struct control_start {
  uint32_t version;     // CONTROL_VERSION
  uint64_t arena_bytes; // length of the arena's descriptor
};

#define CONTROL_NAME_BYTES_MAX 63
#define CONTROL_OPERATORS_MAX 32

struct control_ready {
  enum npu_product product;
  char soc_name[CONTROL_NAME_BYTES_MAX + 1];
  char cann_version[CONTROL_NAME_BYTES_MAX + 1];
  uint64_t memory_bytes; // of the device
  uint32_t operators;    // bit 1 << position in the registry for each that the library has
  bool deterministic;
};

struct control_plan {
  uint64_t id; // the server's; comes back in the answer
  struct operator_request request;
};

// Where a tensor's storage lies in the arena.
struct control_storage {
  bool present; // false: isn't transferred, or isn't a tensor
  uint64_t offset;
  uint64_t bytes;
};

struct control_run {
  uint64_t id;
  struct operator_request request;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX]; // by parameter position
};

struct control_ping {
  uint64_t sequence;
};

struct control_unusable {
  struct status status;
};

struct control_planned {
  uint64_t id;
  bool ok;
  uint64_t workspace_bytes; // as the device's phase 1 says
  bool device_fault;        // the device can't go on: the worker wants to be replaced
  struct status status;     // !ok
};

struct control_finished {
  uint64_t id;
  bool ok;
  bool device_fault;
  int64_t started_ns, finished_ns; // steady clock of the machine
  struct status status;            // !ok
};

struct control_pong {
  uint64_t sequence;
};

struct control_message {
  enum control_kind kind;
  union {
    struct control_start start;
    struct control_plan plan;
    struct control_run run;
    struct control_ping ping;
    struct control_ready ready;
    struct control_unusable unusable;
    struct control_planned planned;
    struct control_finished finished;
    struct control_pong pong;
  };
};

// Writes the message as one frame; returns its length, at most CONTROL_FRAME_BYTES_MAX.
size_t control_write(const struct control_message *message, uint8_t frame[CONTROL_FRAME_BYTES_MAX]);

// Collects bytes from the pipe.
struct control_reader {
  uint8_t bytes[CONTROL_FRAME_BYTES_MAX];
  size_t count;
};

// Takes bytes from *data (advancing it) until a message is whole. True with *message filled: there may be
// more. False with *need_more: all bytes were taken. False without: the peer is broken, status (INTERNAL)
// says how.
MUST_CHECK bool control_read(struct control_reader *reader, const uint8_t **data, size_t *size,
                             struct control_message *message, bool *need_more, struct status *status);

// Whether each storage that the plan transfers is there, as long as planned, aligned and inside the arena, no
// output overlaps another storage, and nothing else is named. Both sides ask.
MUST_CHECK bool control_check_storages(const struct plan *plan, const struct control_storage *storages,
                                       uint64_t arena_bytes, struct status *status);

#endif
