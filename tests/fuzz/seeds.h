// Where fuzzing starts: messages as the writers write them, and a few that are broken in known ways.
#ifndef ACLNN_TESTS_FUZZ_SEEDS_H
#define ACLNN_TESTS_FUZZ_SEEDS_H

#include <stddef.h>
#include <stdint.h>

// `target` is the name of the fuzz target that the seed is meant for, without "_fuzz".
typedef void fuzz_seed_visitor(void *context, const char *target, const uint8_t *data, size_t size);

// Calls visit for every seed. The bytes are valid during the call.
void fuzz_seeds_visit(fuzz_seed_visitor *visit, void *context);

#endif
