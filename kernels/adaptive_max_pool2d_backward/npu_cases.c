// Jobs with known answers: each shows one thing that a device could get wrong.
#include "kernels/adaptive_max_pool2d_backward/npu.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/adaptive_pooling.h"
#include "kernels/half.h"

#include <math.h>

static const float one_to_nine[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
static const float one_to_four[] = {1, 2, 3, 4};
static const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const float powers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

static const int64_t divisible_indices[] = {5, 2, 12, 15};
static const float divisible_result[] = {0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4};

static const float example_gradients[] = {0.4757f, 0.8231f};
static const int32_t example_indices[] = {1, 4};
static const float example_result[] = {0, 0.4757f, 0, 0, 0.8231f, 0};

// 5 -> 3: the windows are [0, 2), [1, 4), [3, 5).
static const int32_t five_indices[] = {6, 8, 9, 16, 18, 19, 21, 23, 24};
static const float five_result[] = {0, 0, 0, 0, 0, 0, 1, 0, 2, 3, 0, 0, 0,
                                    0, 0, 0, 4, 0, 5, 6, 0, 7, 0, 8, 9};

// 4 -> 3: [0, 2), [1, 3), [2, 4); four windows share the maximum at 5.
static const int64_t shared_indices[] = {5, 5, 2, 5, 5, 6, 8, 9, 10};
static const float shared_result[] = {0, 0, 4, 0, 0, 27, 32, 0, 64, 128, 256, 0, 0, 0, 0, 0};

static const int64_t larger_indices[] = {0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};
static const float larger_result[] = {2, 2, 4, 4};

static const int32_t two_planes_indices[] = {4, 4, 4, 4, 0, 2, 6, 8};
static const float two_planes_gradients[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const float two_planes_result[] = {0, 0, 0, 0, 10, 0, 0, 0, 0, 5, 0, 6, 0, 0, 0, 7, 0, 8};

static const int64_t special_indices[] = {3, 0};
static const float special_gradients[] = {NAN, -INFINITY};
static const float special_result[] = {0, 0, 0, NAN, -INFINITY, 0, 0, 0};

static const int64_t no_indices[] = {0, 0, 0, 0};
static const uint16_t fp16_gradients[] = {0x6800, 0x3c00, 0x3c00, 0x3c00}; // 2048, 1, 1, 1
static const uint16_t fp16_result[] = {0x6802};                            // 2051 is rounded to 2052
static const uint16_t bf16_gradients[] = {0x4380, 0x3f80, 0x3f80, 0x3f80}; // 256, 1, 1, 1
static const uint16_t bf16_result[] = {0x4382};                            // 259 is rounded to 260

// The divisible case once more: gradients transposed, indices with an offset and padded rows (7 is padding),
// the result in padded rows, too.
static const float transposed_gradients[] = {1, 3, 2, 4};
static const int64_t padded_indices[] = {7, 5, 2, 7, 12, 15};
static const float padded_result[] = {0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4};

static const float outside_result[] = {10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

// Reproducible, and without a pattern that rows or planes share.
static uint64_t scramble(uint64_t number) {
  number = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return number ^ number >> 29;
}

// Small whole numbers: their sums are exact in each type and in any order, so each product gives the same
// bits.
static void fill_gradients(enum data_type type, void *gradients, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float value = (float)(int)(scramble((uint64_t)i) % 9) - 4;
    if (type == DATA_TYPE_FLOAT) {
      ((float *)gradients)[i] = value;
    } else {
      ((uint16_t *)gradients)[i] = type == DATA_TYPE_BF16 ? bf16_from_float(value) : fp16_from_float(value);
    }
  }
}

// Contiguous tensors; each index somewhere in its window.
static void fill_inputs(const struct plan *plan, void *const storages[OPERATOR_PARAMETERS_MAX]) {
  const struct backward_plan *backward = backward_plan_of(plan);
  const struct plane_view *out = &backward->grad_output, *in = &backward->grad_input;
  enum data_type index_type = plan->arguments.values[BACKWARD_INDICES].tensor.data_type;
  int64_t plane_outputs = out->rows * out->columns;
  fill_gradients(plan->arguments.values[BACKWARD_GRAD_OUTPUT].tensor.data_type,
                 storages[BACKWARD_GRAD_OUTPUT], out->planes * plane_outputs);
  for (int64_t i = 0; i < out->planes * plane_outputs; i++) {
    int64_t row = i % plane_outputs / out->columns, column = i % out->columns;
    int64_t top = pooling_window_begin(row, in->rows, out->rows);
    int64_t left = pooling_window_begin(column, in->columns, out->columns);
    uint64_t height = (uint64_t)(pooling_window_end(row, in->rows, out->rows) - top);
    uint64_t width = (uint64_t)(pooling_window_end(column, in->columns, out->columns) - left);
    uint64_t random = scramble((uint64_t)i + 12345) >> 8;
    int64_t index =
        (top + (int64_t)(random % height)) * in->columns + left + (int64_t)(random / height % width);
    if (index_type == DATA_TYPE_INT64) {
      ((int64_t *)storages[BACKWARD_INDICES])[i] = index;
    } else {
      ((int32_t *)storages[BACKWARD_INDICES])[i] = (int32_t)index;
    }
  }
}

#define SHAPES(type, index_type, rank, n, c, h, w, rows, columns)                                            \
  .values = {                                                                                                \
      [BACKWARD_GRAD_OUTPUT] = NPU_CASE_TENSOR(type, rank, n, c, rows, columns),                             \
      [BACKWARD_SELF] = NPU_CASE_TENSOR(type, rank, n, c, h, w),                                             \
      [BACKWARD_INDICES] = NPU_CASE_TENSOR(index_type, rank, n, c, rows, columns),                           \
      [BACKWARD_GRAD_INPUT] = NPU_CASE_TENSOR(type, rank, n, c, h, w),                                       \
  }
#define DATA(gradients, indices, result)                                                                     \
  .storages = {                                                                                              \
      [BACKWARD_GRAD_OUTPUT] = NPU_CASE_STORAGE(gradients),                                                  \
      [BACKWARD_INDICES] = NPU_CASE_STORAGE(indices),                                                        \
      [BACKWARD_GRAD_INPUT] = NPU_CASE_STORAGE(result),                                                      \
  }

const struct npu_case
    backward_npu_cases[BACKWARD_NPU_CASES] =
        {
            {
                .name = "sizes divide, int64 indices",
                .probe = true,
                SHAPES(FLOAT, INT64, 4, 1, 1, 4, 4, 2, 2),
                DATA(one_to_four, divisible_indices, divisible_result),
            },
            {
                .name = "the example of CANN's repository",
                SHAPES(FLOAT, INT32, 4, 1, 1, 3, 2, 2, 1),
                DATA(example_gradients, example_indices, example_result),
            },
            {
                .name = "windows 5 -> 3, int32 indices",
                SHAPES(FLOAT, INT32, 4, 1, 1, 5, 5, 3, 3),
                DATA(one_to_nine, five_indices, five_result),
            },
            {
                .name = "windows share a maximum",
                SHAPES(FLOAT, INT64, 4, 1, 1, 4, 4, 3, 3),
                DATA(powers, shared_indices, shared_result),
            },
            {
                .name = "output larger than input",
                SHAPES(FLOAT, INT64, 4, 1, 1, 2, 2, 3, 4),
                DATA(ones, larger_indices, larger_result),
            },
            {
                .name = "rank 3, two planes",
                .values =
                    {
                        [BACKWARD_GRAD_OUTPUT] = NPU_CASE_TENSOR(FLOAT, 3, 2, 2, 2),
                        [BACKWARD_SELF] = NPU_CASE_TENSOR(FLOAT, 3, 2, 3, 3),
                        [BACKWARD_INDICES] = NPU_CASE_TENSOR(INT32, 3, 2, 2, 2),
                        [BACKWARD_GRAD_INPUT] = NPU_CASE_TENSOR(FLOAT, 3, 2, 3, 3),
                    },
                DATA(two_planes_gradients, two_planes_indices, two_planes_result),
            },
            {
                .name = "NaN and infinity stay where they belong",
                SHAPES(FLOAT, INT64, 4, 1, 2, 2, 2, 1, 1),
                DATA(special_gradients, special_indices, special_result),
            },
            {
                .name = "float16 sums are formed in float32",
                .unjudged_products = NPU_PRODUCT_BIT(950), // adds in the value's type
                SHAPES(FLOAT16, INT64, 4, 1, 1, 1, 1, 2, 2),
                DATA(fp16_gradients, no_indices, fp16_result),
            },
            {
                .name = "bfloat16 sums are formed in float32",
                .unjudged_products = NPU_PRODUCT_BIT(950), // adds in the value's type
                SHAPES(BF16, INT64, 4, 1, 1, 1, 1, 2, 2),
                DATA(bf16_gradients, no_indices, bf16_result),
            },
            {
                .name = "strides, offset, holes",
                .values =
                    {
                        [BACKWARD_GRAD_OUTPUT] = {.kind = PARAMETER_KIND_TENSOR,
                                                  .tensor = {.data_type = DATA_TYPE_FLOAT,
                                                             .rank = 4,
                                                             .stride_count = 4,
                                                             .shape = {1, 1, 2, 2},
                                                             .strides = {4, 4, 1, 2}}},
                        [BACKWARD_SELF] = NPU_CASE_TENSOR(FLOAT, 4, 1, 1, 4, 4),
                        [BACKWARD_INDICES] = {.kind = PARAMETER_KIND_TENSOR,
                                              .tensor = {.data_type = DATA_TYPE_INT64,
                                                         .rank = 4,
                                                         .stride_count = 4,
                                                         .shape = {1, 1, 2, 2},
                                                         .strides = {6, 6, 3, 1},
                                                         .storage_offset = 1}},
                        [BACKWARD_GRAD_INPUT] = {.kind = PARAMETER_KIND_TENSOR,
                                                 .tensor = {.data_type = DATA_TYPE_FLOAT,
                                                            .rank = 4,
                                                            .stride_count = 4,
                                                            .shape = {1, 1, 4, 4},
                                                            .strides = {20, 20, 5, 1}}},
                    },
                DATA(transposed_gradients, padded_indices, padded_result),
            },
            {
                // A2, A3: dropped, or the last one wins; the binding says so.
                .name = "indices outside their windows",
                SHAPES(FLOAT, INT64, 4, 1, 1, 4, 4, 2, 2),
                DATA(one_to_four, no_indices, outside_result),
            },
            {
                .name = "many planes, sizes divide",
                SHAPES(FLOAT, INT64, 4, 4, 64, 112, 112, 7, 7),
                .fill_inputs = fill_inputs,
            },
            {
                .name = "many planes, windows overlap",
                SHAPES(FLOAT, INT32, 4, 4, 64, 55, 57, 13, 11),
                .fill_inputs = fill_inputs,
            },
            {
                .name = "many planes, windows overlap, float16",
                SHAPES(FLOAT16, INT64, 4, 4, 64, 31, 31, 7, 9),
                .fill_inputs = fill_inputs,
            },
};
