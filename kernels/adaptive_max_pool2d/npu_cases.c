// Jobs with known answers: each shows one thing that a device could get wrong.
#include "kernels/adaptive_max_pool2d/npu.h"
#include "kernels/adaptive_max_pool2d/plan.h"

#include <math.h>

static const float counting[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
static const float five_values[] = {6, 8, 9, 16, 18, 19, 21, 23, 24};
static const int64_t five_indices[] = {6, 8, 9, 16, 18, 19, 21, 23, 24};

static const float one_peak[] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const float tie_values[] = {1, 1, 0, 1, 1, 0, 0, 0, 0};
static const int64_t tie_indices[] = {5, 5, 2, 5, 5, 6, 8, 9, 10};
static const int32_t tie_short_indices[] = {5, 5, 2, 5, 5, 6, 8, 9, 10};

static const float two_by_two[] = {0, 1, 2, 3};
static const float larger_values[] = {0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};
static const int64_t larger_indices[] = {0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};

static const float with_nan[] = {1, NAN, 3, NAN, 5, 6};
static const float nan_value[] = {NAN};
static const int64_t nan_index[] = {3};

static const float all_lowest[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
static const float lowest_value[] = {-INFINITY};
static const int64_t first_index[] = {0};

// 0 to 15.
static const uint16_t fp16_values[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700,
                                       0x4800, 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80};
static const uint16_t fp16_maxima[] = {0x4500, 0x4700, 0x4a80, 0x4b80};
static const int64_t fp16_indices[] = {5, 7, 13, 15};

// 0 to 11.
static const uint16_t bf16_values[] = {0x0000, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
                                       0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130};
static const uint16_t bf16_maxima[] = {0x4080, 0x40a0, 0x4120, 0x4130};
static const int64_t bf16_indices[] = {4, 5, 4, 5};

// 2x2 in columns, padded by a 9; the maxima with a hole between them.
static const float column_values[] = {0, 2, 9, 1, 3};
static const float maxima_with_hole[] = {2, 0, 3};
static const int64_t row_indices[] = {2, 3};

// Contiguous values with many ties among them, reproducible.
static void fill_inputs(const struct plan *plan, void *const storages[OPERATOR_PARAMETERS_MAX]) {
  int64_t count = tensor_desc_elements(&plan->arguments.values[FORWARD_SELF].tensor);
  for (int64_t i = 0; i < count; i++) {
    uint64_t random = ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    ((float *)storages[FORWARD_SELF])[i] = (float)(int)((random ^ random >> 29) % 100) - 50;
  }
}

#define VALUES(type, index_type, rank, input, output, rows, columns)                                         \
  .values = {                                                                                                \
      [FORWARD_SELF] = NPU_CASE_TENSOR(type, rank, input),                                                   \
      [FORWARD_OUTPUT_SIZE] = {.kind = PARAMETER_KIND_INT_ARRAY,                                             \
                               .int_array = {.count = 2, .values = {rows, columns}}},                        \
      [FORWARD_OUTPUT_OUT] = NPU_CASE_TENSOR(type, rank, output, rows, columns),                             \
      [FORWARD_INDICES_OUT] = NPU_CASE_TENSOR(index_type, rank, output, rows, columns),                      \
  }
#define DIMS(...) __VA_ARGS__
#define DATA(input, maxima, indices)                                                                         \
  .storages = {                                                                                              \
      [FORWARD_SELF] = NPU_CASE_STORAGE(input),                                                              \
      [FORWARD_OUTPUT_OUT] = NPU_CASE_STORAGE(maxima),                                                       \
      [FORWARD_INDICES_OUT] = NPU_CASE_STORAGE(indices),                                                     \
  }

const struct npu_case
    forward_npu_cases[FORWARD_NPU_CASES] =
        {
            {
                .name = "windows 5 -> 3",
                VALUES(FLOAT, INT64, 4, DIMS(1, 1, 5, 5), DIMS(1, 1), 3, 3),
                DATA(counting, five_values, five_indices),
            },
            {
                .name = "the first of equal values wins",
                VALUES(FLOAT, INT64, 4, DIMS(1, 1, 4, 4), DIMS(1, 1), 3, 3),
                DATA(one_peak, tie_values, tie_indices),
            },
            {
                .name = "int32 indices",
                VALUES(FLOAT, INT32, 4, DIMS(1, 1, 4, 4), DIMS(1, 1), 3, 3),
                DATA(one_peak, tie_values, tie_short_indices),
            },
            {
                .name = "output larger than input",
                VALUES(FLOAT, INT64, 4, DIMS(1, 1, 2, 2), DIMS(1, 1), 3, 4),
                DATA(two_by_two, larger_values, larger_indices),
            },
            {
                .name = "the last NaN wins",
                VALUES(FLOAT, INT64, 4, DIMS(1, 1, 2, 3), DIMS(1, 1), 1, 1),
                DATA(with_nan, nan_value, nan_index),
            },
            {
                .name = "nothing above minus infinity",
                VALUES(FLOAT, INT64, 4, DIMS(1, 1, 2, 2), DIMS(1, 1), 1, 1),
                DATA(all_lowest, lowest_value, first_index),
            },
            {
                .name = "float16, rank 3",
                VALUES(FLOAT16, INT64, 3, DIMS(1, 4, 4), 1, 2, 2),
                DATA(fp16_values, fp16_maxima, fp16_indices),
            },
            {
                .name = "bfloat16, two planes",
                VALUES(BF16, INT64, 3, DIMS(2, 2, 3), 2, 1, 2),
                DATA(bf16_values, bf16_maxima, bf16_indices),
            },
            {
                .name = "strides, holes",
                .values =
                    {
                        [FORWARD_SELF] = {.kind = PARAMETER_KIND_TENSOR,
                                          .tensor = {.data_type = DATA_TYPE_FLOAT,
                                                     .rank = 4,
                                                     .stride_count = 4,
                                                     .shape = {1, 1, 2, 2},
                                                     .strides = {6, 6, 1, 3}}},
                        [FORWARD_OUTPUT_SIZE] = {.kind = PARAMETER_KIND_INT_ARRAY,
                                                 .int_array = {.count = 2, .values = {1, 2}}},
                        [FORWARD_OUTPUT_OUT] = {.kind = PARAMETER_KIND_TENSOR,
                                                .tensor = {.data_type = DATA_TYPE_FLOAT,
                                                           .rank = 4,
                                                           .stride_count = 4,
                                                           .shape = {1, 1, 1, 2},
                                                           .strides = {4, 4, 4, 2}}},
                        [FORWARD_INDICES_OUT] = NPU_CASE_TENSOR(INT64, 4, 1, 1, 1, 2),
                    },
                DATA(column_values, maxima_with_hole, row_indices),
            },
            {
                .name = "many planes, sizes divide",
                VALUES(FLOAT, INT64, 4, DIMS(4, 64, 112, 112), DIMS(4, 64), 7, 7),
                .fill_inputs = fill_inputs,
            },
            {
                .name = "many planes, windows overlap",
                VALUES(FLOAT, INT64, 4, DIMS(4, 64, 55, 57), DIMS(4, 64), 13, 11),
                .fill_inputs = fill_inputs,
            },
};
