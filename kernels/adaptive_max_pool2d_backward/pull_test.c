// The kernels that pull rows of gradInput, beside a plain loop. A run that is pulled wrongly is most often
// noticed, as the gradients taken are too many or too few, and done in another way; so it would be slow
// rather than wrong. Here they are called themselves.
#include "kernels/adaptive_max_pool2d_backward/backward_call.h"
#include "kernels/adaptive_max_pool2d_backward/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PLANES_MAX 5
#define GUARD 0x5a
#define GUARD_BYTES 64

// Tensors of planes, and rows of some of them that are pulled.
struct pulled {
  struct pull_table table;
  enum data_type value_type, index_type;
  void *gradients, *indices;
  float *float_gradients;
  int32_t *narrow_indices;
  unsigned char *given, *expected; // rows with guards before and behind
  int64_t plane, planes, row_begin, row_end;
  int64_t output_begin;
  int64_t taken; // as expected
};

static int64_t value_bytes(const struct pulled *pulled) {
  return (int64_t)data_type_bytes(pulled->value_type);
}

static int64_t index_bytes(const struct pulled *pulled) {
  return (int64_t)data_type_bytes(pulled->index_type);
}

static void *allocate(int64_t bytes) {
  void *memory = calloc(1, (size_t)bytes);
  assert_non_null(memory);
  return memory;
}

// Tables have lines of a cache to themselves.
static void *allocate_aligned(size_t bytes) {
  void *memory = aligned_alloc(64, bytes);
  assert_non_null(memory);
  return memory;
}

// For all planes, with what is loaded beyond them.
static void fill(struct pulled *pulled, struct random *random) {
  const struct pull_table *table = &pulled->table;
  const int64_t plane_gradients = table->output_rows * table->output_columns;
  const int64_t count = PLANES_MAX * plane_gradients + table->reach;
  pulled->gradients = allocate(count * value_bytes(pulled));
  pulled->indices = allocate(count * index_bytes(pulled));
  pulled->float_gradients = allocate(count * (int64_t)sizeof(float));
  pulled->narrow_indices = allocate(count * (int64_t)sizeof(int32_t));
  random_values(random, pulled->value_type, pulled->gradients, (size_t)count);
  for (int64_t i = 0; i < count; i++) {
    int64_t row = i % plane_gradients / table->output_columns, column = i % table->output_columns;
    int64_t index = backward_random_in_window(random, row, table->rows, table->output_rows) * table->columns +
                    backward_random_in_window(random, column, table->columns, table->output_columns);
    memcpy((unsigned char *)pulled->indices + i * index_bytes(pulled), &index, (size_t)index_bytes(pulled));
    pulled->narrow_indices[i] = (int32_t)index;
    pulled->float_gradients[i] = value_read(pulled->value_type, pulled->gradients, i);
  }
}

// Whole planes, or some rows of one.
static void choose_rows(struct pulled *pulled, struct random *random, bool whole) {
  const struct pull_table *table = &pulled->table;
  pulled->planes = whole ? random_between(random, 1, PLANES_MAX + 1) : 1;
  pulled->plane = random_between(random, 0, PLANES_MAX - pulled->planes + 1);
  pulled->row_begin = whole ? 0 : random_between(random, 0, table->rows);
  pulled->row_end = whole ? table->rows : random_between(random, pulled->row_begin + 1, table->rows + 1);
  pulled->output_begin = pulled->row_begin * table->output_rows / table->rows;
}

static int64_t pulled_elements(const struct pulled *pulled) {
  return pulled->planes * (pulled->row_end - pulled->row_begin) * pulled->table.columns;
}

static void compute_expected(struct pulled *pulled) {
  const struct pull_table *table = &pulled->table;
  const int64_t plane_gradients = table->output_rows * table->output_columns;
  const int64_t elements = pulled_elements(pulled), plane_elements = elements / pulled->planes;
  float *sums = allocate(elements * (int64_t)sizeof(float));
  pulled->taken = 0;
  for (int64_t i = 0; i < pulled->planes * plane_gradients; i++) {
    int64_t from = pulled->plane * plane_gradients + i;
    int64_t at = pulled->narrow_indices[from] - pulled->row_begin * table->columns;
    if (at >= 0 && at < plane_elements) {
      sums[i / plane_gradients * plane_elements + at] += pulled->float_gradients[from];
      pulled->taken++;
    }
  }
  for (int64_t i = 0; i < elements; i++) {
    value_write(pulled->value_type, pulled->expected + GUARD_BYTES, i, sums[i]);
  }
  free(sums);
}

static struct backward_pull pull_of(struct pulled *pulled, bool held) {
  const struct pull_table *table = &pulled->table;
  int64_t first = (pulled->plane * table->output_rows + pulled->output_begin) * table->output_columns;
  const unsigned char *gradients = pulled->gradients, *indices = pulled->indices;
  return (struct backward_pull){
      .table = table,
      .grad_input = pulled->given + GUARD_BYTES,
      .gradients =
          held ? (const void *)(gradients + first * value_bytes(pulled)) : pulled->float_gradients + first,
      .indices =
          held ? (const void *)(indices + first * index_bytes(pulled)) : pulled->narrow_indices + first,
      .planes = pulled->planes,
      .row_begin = pulled->row_begin,
      .row_end = pulled->row_end,
      .output_begin = pulled->output_begin,
  };
}

static void assert_takes_all(struct pulled *pulled, const struct backward_kernels *kernels, bool held,
                             const char *path) {
  int64_t bytes = pulled_elements(pulled) * value_bytes(pulled) + 2 * GUARD_BYTES;
  memset(pulled->given, GUARD, (size_t)bytes);
  struct backward_pull pull = pull_of(pulled, held);
  int64_t taken = held ? kernels->pull_held(&pull) : kernels->pull(&pull);
  if (taken != pulled->taken || memcmp(pulled->given, pulled->expected, (size_t)bytes) != 0) {
    const struct pull_table *table = &pulled->table;
    fail_msg("%s%s, %lldx%lld of %lldx%lld, %lld planes, rows %lld to %lld: took %lld of %lld", path,
             held ? ", held" : "", (long long)table->output_rows, (long long)table->output_columns,
             (long long)table->rows, (long long)table->columns, (long long)pulled->planes,
             (long long)pulled->row_begin, (long long)pulled->row_end, (long long)taken,
             (long long)pulled->taken);
  }
}

// An upper half that isn't zero, in the windows over the rows or right behind them, where nothing is used.
static void assert_refuses_wide_index(struct pulled *pulled, const struct backward_kernels *kernels) {
  const struct pull_table *table = &pulled->table;
  int64_t row = pulled->plane * table->output_rows + pulled->output_begin;
  int64_t *index = (int64_t *)pulled->indices + row * table->output_columns;
  *index += INT64_C(1) << 32;
  struct backward_pull pull = pull_of(pulled, true);
  assert_int_equal(kernels->pull_held(&pull), 0);
  *index -= INT64_C(1) << 32;
}

static void pull_with(struct pulled *pulled, enum cpu_path path, struct random *random) {
  const struct backward_kernels *kernels =
      backward_kernels_find(path, pulled->value_type, pulled->index_type);
  if (kernels->pull == NULL || !pull_table_build(&pulled->table, kernels->pull_lanes)) {
    return;
  }
  int64_t elements = PLANES_MAX * pulled->table.rows * pulled->table.columns;
  pulled->given = allocate(elements * value_bytes(pulled) + 2 * GUARD_BYTES);
  pulled->expected = allocate(elements * value_bytes(pulled) + 2 * GUARD_BYTES);
  fill(pulled, random);
  for (int i = 0; i < 6; i++) {
    choose_rows(pulled, random, i < 2);
    memset(pulled->expected, GUARD, (size_t)(elements * value_bytes(pulled) + 2 * GUARD_BYTES));
    compute_expected(pulled);
    assert_takes_all(pulled, kernels, false, cpu_path_name(path));
    if (pulled->table.held) {
      assert_takes_all(pulled, kernels, true, cpu_path_name(path));
      if (pulled->index_type == DATA_TYPE_INT64) {
        assert_refuses_wide_index(pulled, kernels);
      }
    }
  }
  free(pulled->gradients);
  free(pulled->indices);
  free(pulled->float_gradients);
  free(pulled->narrow_indices);
  free(pulled->given);
  free(pulled->expected);
}

static void every_gradient_is_taken_once(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {
      {64, 64, 63, 63}, {38, 38, 30, 30}, {20, 48, 13, 47},  {9, 9, 8, 8},   {33, 17, 33, 16},
      {5, 300, 4, 280}, {12, 32, 12, 31}, {3, 1100, 2, 999}, {2, 3, 2, 2},   {70, 5, 69, 3},
      {16, 32, 15, 16}, {21, 16, 14, 16}, {10, 40, 18, 39},  {13, 8, 13, 7}, {40, 41, 3, 39},
  };
  static const enum data_type value_types[] = {DATA_TYPE_FLOAT, DATA_TYPE_FLOAT16, DATA_TYPE_BF16};
  struct random random = {13};
  struct pulled *pulled = allocate_aligned(sizeof *pulled);
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 6; i++) {
    const int64_t *shape = shapes[i / 6];
    pulled->value_type = value_types[i % 3];
    pulled->index_type = i / 3 % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64;
    for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
      pulled->table.rows = shape[0];
      pulled->table.columns = shape[1];
      pulled->table.output_rows = shape[2];
      pulled->table.output_columns = shape[3];
      if (cpu_path_is_available(path)) {
        pull_with(pulled, path, &random);
      }
    }
  }
  free(pulled);
}

// Where the order of rows matters most the table is one that can be held.
static void tables_of_neighbouring_windows_can_be_held(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {{64, 64, 63, 63}, {38, 38, 30, 30}, {112, 112, 111, 111}, {9, 9, 8, 8}};
  static const int32_t lanes[] = {4, 8, 16};
  struct pull_table *table = allocate_aligned(sizeof *table);
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 3; i++) {
    table->rows = shapes[i / 3][0];
    table->columns = shapes[i / 3][1];
    table->output_rows = shapes[i / 3][2];
    table->output_columns = shapes[i / 3][3];
    assert_true(pull_table_build(table, lanes[i % 3]));
    assert_true(table->held);
    assert_true(table->slots <= PULL_HELD_SLOTS);
  }
  free(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_gradient_is_taken_once),
      cmocka_unit_test(tables_of_neighbouring_windows_can_be_held),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
