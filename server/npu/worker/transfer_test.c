#include "server/npu/worker/fake_functions.h"
#include "server/npu/worker/transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PIECES 7

// Around the limits of a half: nothing left over, one byte more, several halves, and small ones in between.
static const size_t piece_bytes[PIECES] = {100,
                                           1,
                                           TRANSFER_HALF_BYTES,
                                           TRANSFER_HALF_BYTES + 1,
                                           64,
                                           5 * TRANSFER_HALF_BYTES / 2,
                                           3 * TRANSFER_HALF_BYTES};

struct pieces {
  struct transfer_piece pieces[PIECES];
  uint8_t *sent[PIECES];
};

static void make_pieces(struct pieces *pieces) {
  for (size_t i = 0; i < PIECES; i++) {
    pieces->sent[i] = malloc(piece_bytes[i]);
    pieces->pieces[i] =
        (struct transfer_piece){malloc(piece_bytes[i]), malloc(piece_bytes[i]), piece_bytes[i]};
    for (size_t j = 0; j < piece_bytes[i]; j++) {
      pieces->sent[i][j] = (uint8_t)(j * 31 + j / 251 + i);
    }
    memcpy(pieces->pieces[i].host, pieces->sent[i], piece_bytes[i]);
  }
}

static void free_pieces(struct pieces *pieces) {
  for (size_t i = 0; i < PIECES; i++) {
    free(pieces->sent[i]);
    free(pieces->pieces[i].host);
    free(pieces->pieces[i].device);
  }
}

static void check_round_trips(enum transfer_way way) {
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct transfer transfer;
  struct status status;
  struct pieces pieces;
  make_pieces(&pieces);
  assert_true(transfer_open(&functions, NULL, 1000, way, &transfer, &status));
  assert_int_equal(transfer.way, way);
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < PIECES; i++) {
      memset(pieces.pieces[i].device, 0, piece_bytes[i]);
      assert_true(transfer_upload(&transfer, &pieces.pieces[i], &status));
    }
    if (round == 1) { // else the download's own waiting does it
      assert_true(transfer_synchronise(&transfer, &status));
      for (size_t i = 0; i < PIECES; i++) {
        assert_memory_equal(pieces.pieces[i].device, pieces.sent[i], piece_bytes[i]);
        memset(pieces.pieces[i].host, 0, piece_bytes[i]);
      }
    }
    assert_true(transfer_download(&transfer, pieces.pieces, PIECES, &status));
    for (size_t i = 0; i < PIECES; i++) {
      assert_memory_equal(pieces.pieces[i].host, pieces.sent[i], piece_bytes[i]);
    }
  }
  transfer_close(&transfer);
  assert_int_equal(fake->host_used_bytes, 0);
  free_pieces(&pieces);
}

static void bytes_arrive_in_both_ways(void **state) {
  (void)state;
  check_round_trips(TRANSFER_DIRECT);
  check_round_trips(TRANSFER_STAGED);
}

static void small_tensors_wait_for_nothing_on_their_way_up(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct transfer transfer;
  struct status status;
  uint8_t from[1000] = {1}, to[1000] = {0};
  assert_true(transfer_open(&functions, NULL, 1000, TRANSFER_STAGED, &transfer, &status));
  struct transfer_piece piece = {from, to, sizeof from};
  for (int i = 0; i < 20; i++) {
    assert_true(transfer_upload(&transfer, &piece, &status));
  }
  assert_int_equal(fake->synchronises, 0);
  assert_true(transfer_synchronise(&transfer, &status));
  transfer_close(&transfer);
}

static void measurement_takes_one_of_both_and_leaves_nothing(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct transfer transfer;
  struct status status;
  assert_true(transfer_open(&functions, NULL, 1000, TRANSFER_MEASURED, &transfer, &status));
  assert_true(transfer.way == TRANSFER_DIRECT || transfer.way == TRANSFER_STAGED);
  assert_int_equal(transfer.staging != NULL, transfer.way == TRANSFER_STAGED);
  assert_int_equal(fake->used_bytes, 0);
  transfer_close(&transfer);
  assert_int_equal(fake->host_used_bytes, 0);
}

static void without_pinned_memory_copies_are_direct(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct transfer transfer;
  struct status status;
  fake->no_host_memory = true;
  assert_true(transfer_open(&functions, NULL, 1000, TRANSFER_STAGED, &transfer, &status));
  assert_int_equal(transfer.way, TRANSFER_DIRECT);
  transfer_close(&transfer);
}

static void faults_at_synchronise_are_told(void **state) {
  (void)state;
  static const enum transfer_way ways[] = {TRANSFER_DIRECT, TRANSFER_STAGED};
  for (size_t i = 0; i < 2; i++) {
    struct acl_functions functions;
    struct fake_state *fake = fake_functions_begin(&functions);
    struct transfer transfer;
    struct status status;
    uint8_t host[64] = {0}, device[64] = {0};
    assert_true(transfer_open(&functions, NULL, 1000, ways[i], &transfer, &status));
    fake->synchronise_number = 507015;
    struct transfer_piece piece = {host, device, sizeof host};
    assert_true(transfer_upload(&transfer, &piece, &status));
    assert_false(transfer_download(&transfer, &piece, 1, &status));
    assert_int_equal(status.reason, REASON_DEVICE_LOST);
    assert_int_equal(status.aclnn_status, 507015);
    transfer_close(&transfer);
    fake_functions_begin(&functions);
    // While it is measured, too.
    fake->synchronise_number = 507046;
    assert_false(transfer_open(&functions, NULL, 1000, TRANSFER_MEASURED, &transfer, &status));
    assert_int_equal(status.aclnn_status, 507046);
    assert_int_equal(fake->host_used_bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_arrive_in_both_ways),
      cmocka_unit_test(small_tensors_wait_for_nothing_on_their_way_up),
      cmocka_unit_test(measurement_takes_one_of_both_and_leaves_nothing),
      cmocka_unit_test(without_pinned_memory_copies_are_direct),
      cmocka_unit_test(faults_at_synchronise_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
