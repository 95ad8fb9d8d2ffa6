// Jobs with known answers, of small integers: every order of additions gives the same bits.
#include "kernels/mm/npu.h"
#include "kernels/mm/plan.h"

static const float two_by_three[] = {1, 2, 3, 4, 5, 6};
static const float three_by_two[] = {7, 8, 9, 10, 11, 12};
static const float product[] = {58, 64, 139, 154};

// The same, padded by a column of 9: lines are 4 and 3 apart.
static const float padded[] = {1, 2, 3, 9, 4, 5, 6};
static const float padded_product[] = {58, 64, 0, 139, 154};
// The columns of the second one.
static const float columns[] = {7, 9, 11, 8, 10, 12};

// 1 2 / 3 4 by 5 6 / 7 8 is 19 22 / 43 50.
static const uint16_t fp16_left[] = {0x3c00, 0x4000, 0x4200, 0x4400};
static const uint16_t fp16_right[] = {0x4500, 0x4600, 0x4700, 0x4800};
static const uint16_t fp16_product[] = {0x4cc0, 0x4d80, 0x5160, 0x5240};
static const uint16_t bf16_left[] = {0x3f80, 0x4000, 0x4040, 0x4080};
static const uint16_t bf16_right[] = {0x40a0, 0x40c0, 0x40e0, 0x4100};
static const uint16_t bf16_product[] = {0x4198, 0x41b0, 0x422c, 0x4248};

// Contiguous small integers, reproducible.
static void fill_inputs(const struct plan *plan, void *const storages[OPERATOR_PARAMETERS_MAX]) {
  for (size_t parameter = MM_SELF; parameter <= MM_MAT2; parameter++) {
    int64_t count = tensor_desc_elements(&plan->arguments.values[parameter].tensor);
    for (int64_t i = 0; i < count; i++) {
      uint64_t random = ((uint64_t)i + 1 + parameter) * UINT64_C(0x9e3779b97f4a7c15);
      ((float *)storages[parameter])[i] = (float)(int)((random ^ random >> 29) % 17) - 8;
    }
  }
}

#define STRIDED(rows, columns_, row_stride, column_stride)                                                   \
  {                                                                                                          \
    .kind = PARAMETER_KIND_TENSOR, .tensor = {                                                               \
      .data_type = DATA_TYPE_FLOAT,                                                                          \
      .rank = 2,                                                                                             \
      .stride_count = 2,                                                                                     \
      .shape = {rows, columns_},                                                                             \
      .strides = {row_stride, column_stride}                                                                 \
    }                                                                                                        \
  }
#define MATH_TYPE(value)                                                                                     \
  { .kind = PARAMETER_KIND_INTEGER, .integer = (value) }
#define VALUES(type, m, k, n)                                                                                \
  .values = {                                                                                                \
      [MM_SELF] = NPU_CASE_TENSOR(type, 2, m, k),                                                            \
      [MM_MAT2] = NPU_CASE_TENSOR(type, 2, k, n),                                                            \
      [MM_OUT] = NPU_CASE_TENSOR(type, 2, m, n),                                                             \
      [MM_CUBE_MATH_TYPE] = MATH_TYPE(MM_KEEP_DTYPE),                                                        \
  }
#define DATA(self, mat2, out)                                                                                \
  .storages = {[MM_SELF] = NPU_CASE_STORAGE(self),                                                           \
               [MM_MAT2] = NPU_CASE_STORAGE(mat2),                                                           \
               [MM_OUT] = NPU_CASE_STORAGE(out)}

const struct npu_case mm_npu_cases[MM_NPU_CASES] = {
    {
        .name = "two by three by two",
        VALUES(FLOAT, 2, 3, 2),
        DATA(two_by_three, three_by_two, product),
    },
    {
        .name = "padded, transposed, a hole in the result",
        .values =
            {
                [MM_SELF] = STRIDED(2, 3, 4, 1),
                [MM_MAT2] = STRIDED(3, 2, 1, 3),
                [MM_OUT] = STRIDED(2, 2, 3, 1),
                [MM_CUBE_MATH_TYPE] = MATH_TYPE(MM_KEEP_DTYPE),
            },
        DATA(padded, columns, padded_product),
    },
    {
        .name = "float16",
        VALUES(FLOAT16, 2, 2, 2),
        DATA(fp16_left, fp16_right, fp16_product),
    },
    {
        .name = "bfloat16",
        VALUES(BF16, 2, 2, 2),
        DATA(bf16_left, bf16_right, bf16_product),
    },
    {
        .name = "larger than a tile of anything",
        VALUES(FLOAT, 257, 129, 131),
        .fill_inputs = fill_inputs,
    },
};
