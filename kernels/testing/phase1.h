// For tests of what phase 1 of an operator accepts and refuses: tables of arguments in short notation.
//
// Only for cmocka tests: a row that isn't answered as it says fails the test.
#ifndef ACLNN_KERNELS_TESTING_PHASE1_H
#define ACLNN_KERNELS_TESTING_PHASE1_H

#include "kernels/testing/operator_call.h"

#define PHASE1_ARGUMENTS 4

// The arguments in the order of the operator's parameters: a tensor as desc_of reads it, "" for one whose
// description is empty, "(7,7)" for an array of integers, "=1" for an integer, NULL for an absent one. Then
// the reason of the refusal (REASON_NONE if there is none), the parameter that it blames and what its message
// says.
struct phase1_row {
  const char *arguments[PHASE1_ARGUMENTS];
  enum reason reason;
  const char *parameter;
  const char *said;
};

// Begins a call of the operator with the arguments.
void phase1_begin(struct operator_call *call, const char *operator_name,
                  const char *const arguments[PHASE1_ARGUMENTS]);

// Plans each row, without memory for its tensors.
void phase1_assert_rows(const char *operator_name, const struct phase1_row *rows, size_t count);

#endif
