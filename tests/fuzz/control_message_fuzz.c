// Control messages of server and NPU worker, both directions: what was read is written as the same bytes, in
// whatever pieces it comes, and a broken frame is an error.
#include "server/npu/control/message.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <string.h>

static void expect_same_frame(const struct control_message *message, const uint8_t *end,
                              const uint8_t *start) {
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  size_t size = control_write(message, frame);
  assert(size <= (size_t)(end - start));
  assert(memcmp(frame, end - size, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  static const enum reason allowed[] = {REASON_INTERNAL};
  static struct control_reader reader;
  static struct control_message message;
  reader.count = 0;
  size_t piece_max = (size_t)data[0] + 1;
  const uint8_t *at = data + 1;
  const uint8_t *end = data + size;
  while (at < end) {
    size_t piece = (size_t)(end - at) < piece_max ? (size_t)(end - at) : piece_max;
    bool need_more = false;
    while (!need_more) {
      struct status status;
      if (control_read(&reader, &at, &piece, &message, &need_more, &status)) {
        expect_same_frame(&message, at, data + 1);
      } else if (!need_more) {
        fuzz_expect_refusal(&status, allowed, 1);
        return 0;
      }
    }
    assert(piece == 0 && reader.count <= CONTROL_FRAME_BYTES_MAX);
  }
  return 0;
}
