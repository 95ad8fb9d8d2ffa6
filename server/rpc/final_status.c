#include "server/rpc/final_status.h"

void final_status_ok(struct final_status *final) {
  *final = (struct final_status){.code = GRPC_STATUS_OK, .message = grpc_empty_slice()};
}

void final_status_plain(struct final_status *final, enum rpc_code code, const char *message) {
  *final = (struct final_status){.code = (grpc_status_code)code,
                                 .message = grpc_slice_from_copied_string(message)};
}

void final_status_failed(struct final_status *final, const struct status *failed) {
  final_status_plain(final, reason_to_rpc_code(failed->reason), failed->message);
  struct wire_buffer details = {0};
  if (error_details_write(failed, &details) && details.size > 0) {
    final->details.key = grpc_slice_from_static_string(ERROR_DETAILS_KEY);
    final->details.value = grpc_slice_from_copied_buffer((const char *)details.data, details.size);
    final->details_count = 1;
  }
  wire_buffer_free(&details);
}

void final_status_free(struct final_status *final) {
  grpc_slice_unref(final->message);
  if (final->details_count > 0) {
    grpc_slice_unref(final->details.value);
  }
  final_status_ok(final);
}

void final_status_op(struct final_status *final, grpc_op *op) {
  *op = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
  op->data.send_status_from_server.status = final->code;
  op->data.send_status_from_server.status_details = &final->message;
  op->data.send_status_from_server.trailing_metadata = &final->details;
  op->data.send_status_from_server.trailing_metadata_count = final->details_count;
}
