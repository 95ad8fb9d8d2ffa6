#include "proto/wire/wire_buffer.h"

#include <stdlib.h>

void wire_buffer_free(struct wire_buffer *buffer) {
  free(buffer->data);
  *buffer = (struct wire_buffer){0};
}
