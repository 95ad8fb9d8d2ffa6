// The file in which a server keeps a device's wrong result: reading.
//
// All integers are little endian:
//
//   8 bytes   "ACLNNCAP"
//   u32       version of the format, 1
//   u32       length of the header in bytes
//   header    a JSON object, UTF-8
//   the rest  raw storages, one after the other as the header's "storages" lists them
//
// Of the header these are used: "operator", "numerics", "arguments" (tensors with data_type, shape, strides,
// storage_offset and storage_elements; attributes with their values; an integer's value is a text),
// "storages" (tensor, role "input", "device" or "cpu", bytes), "device" (name), "versions" (server). Nothing
// in the file is believed. An open file is mapped and must not be changed meanwhile; any thread.
#ifndef ACLNN_CLIENT_CLI_CAPSULE_FILE_H
#define ACLNN_CLIENT_CLI_CAPSULE_FILE_H

#include "client/c/aclnn_client.h"
#include "client/cli/attribute.h"
#include "client/cli/failure.h"

// A header describes at most ACLNN_TENSORS_MAX arguments.
#define CAPSULE_HEADER_BYTES_MAX ((size_t)1 << 20)
#define CAPSULE_TEXT_BYTES_MAX 95

struct capsule_tensor {
  char name[CAPSULE_TEXT_BYTES_MAX + 1];
  const void *input;        // NULL: an output, or an input of which only the shape is read
  const void *device, *cpu; // outputs
  size_t bytes;             // of each of them
};

struct capsule_attribute {
  char name[CAPSULE_TEXT_BYTES_MAX + 1];
  char text[CAPSULE_TEXT_BYTES_MAX + 1];
  int64_t values[ATTRIBUTE_VALUES_MAX];
};

struct capsule_file {
  char operator_name[CAPSULE_TEXT_BYTES_MAX + 1];
  char device[CAPSULE_TEXT_BYTES_MAX + 1], server_version[CAPSULE_TEXT_BYTES_MAX + 1]; // may be ""
  aclnn_numerics numerics;
  // Ready for a call; names and data point into this struct and into the file.
  aclnn_tensor tensors[ACLNN_TENSORS_MAX];
  struct capsule_tensor recorded[ACLNN_TENSORS_MAX]; // by position in tensors
  size_t tensor_count;
  aclnn_attribute attributes[ACLNN_TENSORS_MAX];
  struct capsule_attribute attribute_values[ACLNN_TENSORS_MAX];
  size_t attribute_count;
  void *_map;
  size_t _map_bytes;
};

// Takes bytes apart that stay where they are as long as *capsule is used. *capsule must not be moved.
MUST_CHECK bool capsule_file_parse(const uint8_t *bytes, size_t size, struct capsule_file *capsule,
                                   struct failure *failure);

// Maps the file and takes it apart.
MUST_CHECK bool capsule_file_open(const char *path, struct capsule_file *capsule, struct failure *failure);
void capsule_file_close(struct capsule_file *capsule);

#endif
