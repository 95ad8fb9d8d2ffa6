// The reference cases in data/: operators with exact inputs and outputs, computed twice by other programs.
//
// manifest.json lists the cases and where in data.bin their tensors lie (little endian, contiguous, aligned
// to 64 bytes). The reader owns all memory; what it hands out is valid until golden_close. One thread at a
// time.
#ifndef ACLNN_TESTS_GOLDEN_GOLDEN_H
#define ACLNN_TESTS_GOLDEN_GOLDEN_H

#include "kernels/status.h"
#include "kernels/tensor.h"

enum golden_kind { GOLDEN_BACKWARD, GOLDEN_FORWARD };

enum golden_expect {
  GOLDEN_OK,
  GOLDEN_REJECT_INDEX,  // an index lies outside its plane
  GOLDEN_REJECT_PARAMS, // the descriptions don't fit each other; there are no data
};

struct golden;
struct golden_case;

struct golden_tensor {
  struct tensor_desc desc; // contiguous, not normalised
  const void *data;        // NULL in GOLDEN_REJECT_PARAMS
  size_t bytes;
};

// Reads DIRECTORY/manifest.json and data.bin. Fails with FILE_INVALID.
MUST_CHECK bool golden_open(const char *directory, struct golden **golden, struct status *status);
void golden_close(struct golden *golden);

size_t golden_case_count(const struct golden *golden);
const struct golden_case *golden_case_at(const struct golden *golden, size_t position);

const char *golden_case_name(const struct golden_case *golden_case);
enum golden_kind golden_case_kind(const struct golden_case *golden_case);
enum golden_expect golden_case_expect(const struct golden_case *golden_case);
// Of self; NULL in GOLDEN_REJECT_PARAMS.
const struct tensor_desc *golden_case_self(const struct golden_case *golden_case);
// The output_size, two numbers.
const int64_t *golden_case_output_size(const struct golden_case *golden_case);
// True if the index of a window with NaN may be that of any NaN in it.
bool golden_case_allows_any_nan(const struct golden_case *golden_case);
// In GOLDEN_REJECT_INDEX: the flat position of the first illegal index, and its value as text.
int64_t golden_case_bad_position(const struct golden_case *golden_case);
const char *golden_case_bad_value(const struct golden_case *golden_case);
// The tensor of that name in the manifest ("grad_output", "indices", ...), NULL if the case has none.
const struct golden_tensor *golden_case_tensor(const struct golden_case *golden_case, const char *name);

#endif
