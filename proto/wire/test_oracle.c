#include "proto/wire/test_oracle.h"

#include "aclnn/v1/operator_service.pb-c.h"

#include <assert.h>
#include <stdlib.h>

bool oracle_read(enum execute_message_kind kind, const uint8_t *data, size_t size, struct oracle *oracle) {
  const ProtobufCMessageDescriptor *descriptor = kind == EXECUTE_MESSAGE_REQUEST
                                                     ? &aclnn__v1__execute_request__descriptor
                                                     : &aclnn__v1__execute_response__descriptor;
  ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, NULL, size, data);
  if (message == NULL) {
    return false;
  }
  Aclnn__V1__TensorChunk **chunks;
  if (kind == EXECUTE_MESSAGE_REQUEST) {
    oracle->chunk_count = ((Aclnn__V1__ExecuteRequest *)message)->n_chunks;
    chunks = ((Aclnn__V1__ExecuteRequest *)message)->chunks;
  } else {
    oracle->chunk_count = ((Aclnn__V1__ExecuteResponse *)message)->n_chunks;
    chunks = ((Aclnn__V1__ExecuteResponse *)message)->chunks;
  }
  oracle->_message = message;
  oracle->chunks = calloc(oracle->chunk_count + 1, sizeof *oracle->chunks);
  oracle->_spans = calloc(oracle->chunk_count + 1, sizeof *oracle->_spans);
  assert(oracle->chunks != NULL && oracle->_spans != NULL);
  for (size_t i = 0; i < oracle->chunk_count; i++) {
    oracle->_spans[i] = (struct span){chunks[i]->data.data, chunks[i]->data.len};
    oracle->chunks[i] = (struct tensor_chunk){.tensor_index = chunks[i]->tensor_index,
                                              .offset = chunks[i]->offset,
                                              .codec = (enum codec)chunks[i]->codec,
                                              .raw_bytes = chunks[i]->raw_bytes,
                                              .data_bytes = chunks[i]->data.len};
    span_cursor_init(&oracle->chunks[i].data, &oracle->_spans[i], 1);
  }
  return true;
}

void oracle_free(struct oracle *oracle) {
  protobuf_c_message_free_unpacked(oracle->_message, NULL);
  free(oracle->chunks);
  free(oracle->_spans);
}
