// A .npy file that a call is going to fill.
//
// It is opened before the call, so that a wrong path shows before anything was sent, and written after it. A
// call that fails leaves an existing file as it was.
#ifndef ACLNN_CLIENT_CLI_OUTPUT_FILE_H
#define ACLNN_CLIENT_CLI_OUTPUT_FILE_H

#include "client/c/aclnn_client.h"
#include "client/cli/failure.h"

struct output_file {
  const char *path;
  int _descriptor;
  bool _created;
};

MUST_CHECK bool output_file_open(const char *path, struct output_file *file, struct failure *failure);
// Writes the tensor, whose elements lie in row-major order without holes, and closes the file.
MUST_CHECK bool output_file_write(struct output_file *file, const aclnn_tensor *tensor,
                                  struct failure *failure);
// Closes a file that wasn't written, and removes it if it is new. Accepts one that was written or never
// opened (all zeros).
void output_file_abandon(struct output_file *file);

#endif
