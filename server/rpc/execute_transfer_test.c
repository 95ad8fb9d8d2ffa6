#include "server/rpc/execute_download.h"
#include "server/rpc/execute_upload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CHUNK_BYTES_MAX = 100, VALUES = 0, SHAPE = 1, INDICES = 2, RESULT = 3, EMPTY = 4, SECOND_RESULT = 5 };

static const struct operator_parameter parameters[] = {
    {.name = "values"}, {.name = "shape"}, {.name = "indices"},
    {.name = "result"}, {.name = "empty"}, {.name = "secondResult"},
};

static const struct operator_definition made_up = {
    .name = "made up", .parameters = parameters, .parameter_count = 6};

static const struct plan plan = {
    .definition = &made_up,
    .tensor_count = 6,
    .tensors =
        {
            [VALUES] =
                {.parameter = 0, .direction = DIRECTION_INPUT, .transferred = true, .storage_bytes = 250},
            [SHAPE] =
                {.parameter = 1, .direction = DIRECTION_INPUT, .transferred = false, .storage_bytes = 50},
            [INDICES] =
                {.parameter = 2, .direction = DIRECTION_INPUT, .transferred = true, .storage_bytes = 30},
            [RESULT] =
                {.parameter = 3, .direction = DIRECTION_OUTPUT, .transferred = true, .storage_bytes = 201},
            [EMPTY] =
                {.parameter = 4, .direction = DIRECTION_OUTPUT, .transferred = true, .storage_bytes = 0},
            [SECOND_RESULT] =
                {.parameter = 5, .direction = DIRECTION_OUTPUT, .transferred = true, .storage_bytes = 100},
        },
};

static bool take(struct execute_upload *upload, uint32_t tensor, int64_t offset, size_t bytes) {
  struct tensor_chunk chunk = {.tensor_index = tensor, .offset = offset, .data_bytes = bytes};
  struct status status;
  if (!execute_upload_check(upload, &chunk, CHUNK_BYTES_MAX, &status)) {
    return false;
  }
  execute_upload_advance(upload, tensor, bytes);
  return true;
}

static void chunks_in_order_complete_the_upload(void **unused) {
  (void)unused;
  struct execute_upload upload;
  execute_upload_init(&upload, &plan);
  assert_int_equal(upload.missing_bytes, 280);
  assert_true(take(&upload, VALUES, 0, 100));
  assert_true(take(&upload, INDICES, 0, 30)); // tensors may interleave
  assert_true(take(&upload, VALUES, 100, 100));
  assert_int_equal(upload.missing_bytes, 50);
  assert_true(take(&upload, VALUES, 200, 50));
  assert_int_equal(upload.missing_bytes, 0);
}

static void wrong_chunks_are_refused(void **unused) {
  (void)unused;
  static const struct {
    struct tensor_chunk chunk;
    const char *parameter, *says;
  } cases[] = {
      {{.tensor_index = 6, .data_bytes = 1}, "", "6 tensors"},
      {{.tensor_index = UINT32_MAX, .data_bytes = 1}, "", "4294967295"},
      {{.tensor_index = RESULT, .data_bytes = 1}, "result", "output"},
      {{.tensor_index = SHAPE, .data_bytes = 50}, "shape", "only the shape"},
      {{.tensor_index = VALUES, .offset = 100}, "values", "empty"},
      {{.tensor_index = VALUES, .offset = 99, .data_bytes = 10}, "values", "offset 99"},   // overlap
      {{.tensor_index = VALUES, .offset = 101, .data_bytes = 10}, "values", "offset 101"}, // gap
      {{.tensor_index = VALUES, .offset = -1, .data_bytes = 10}, "values", "offset -1"},
      {{.tensor_index = VALUES, .offset = 100, .data_bytes = 101}, "values", "at most 100"},
      {{.tensor_index = VALUES, .offset = 100, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 101, .data_bytes = 10},
       "values",
       "at most 100"},
      {{.tensor_index = INDICES, .data_bytes = 31}, "indices", "the storage has 30"},
      {{.tensor_index = INDICES, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 31, .data_bytes = 10},
       "indices",
       "the storage has 30"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    struct execute_upload upload;
    struct status status;
    execute_upload_init(&upload, &plan);
    assert_true(take(&upload, VALUES, 0, 100));
    assert_false(execute_upload_check(&upload, &cases[i].chunk, CHUNK_BYTES_MAX, &status));
    assert_int_equal(status.reason, REASON_TENSOR_DATA_INVALID);
    assert_string_equal(status.parameter, cases[i].parameter);
    assert_non_null(strstr(status.message, cases[i].says));
  }
}

static void early_half_close_names_what_is_missing(void **unused) {
  (void)unused;
  struct execute_upload upload;
  struct status status;
  execute_upload_init(&upload, &plan);
  assert_true(take(&upload, VALUES, 0, 100));
  assert_true(take(&upload, VALUES, 100, 100));
  assert_true(take(&upload, VALUES, 200, 50));
  assert_true(take(&upload, INDICES, 0, 10));
  assert_false(execute_upload_fail_incomplete(&upload, &status));
  assert_int_equal(status.reason, REASON_TENSOR_DATA_INVALID);
  assert_string_equal(status.parameter, "indices");
  assert_non_null(strstr(status.message, "10 of 30 bytes"));
}

static void outputs_are_cut_into_pieces_in_order(void **unused) {
  (void)unused;
  static const struct execute_piece expected[] = {
      {RESULT, 0, 100}, {RESULT, 100, 100}, {RESULT, 200, 1}, {SECOND_RESULT, 0, 100}};
  struct execute_download download;
  struct execute_piece piece;
  execute_download_init(&download, &plan, 100);
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {
    assert_true(execute_download_peek(&download, &piece));
    assert_true(execute_download_peek(&download, &piece)); // looking doesn't go on
    assert_int_equal(piece.tensor_index, expected[i].tensor_index);
    assert_int_equal(piece.offset, expected[i].offset);
    assert_int_equal(piece.bytes, expected[i].bytes);
    execute_download_advance(&download, &piece);
  }
  assert_false(execute_download_peek(&download, &piece));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_in_order_complete_the_upload),
      cmocka_unit_test(wrong_chunks_are_refused),
      cmocka_unit_test(early_half_close_names_what_is_missing),
      cmocka_unit_test(outputs_are_cut_into_pieces_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
