// The command line, taken apart.
//
// Pointers go into the argument vector, which must outlive the struct. One thread (getopt).
#ifndef ACLNN_CLIENT_CLI_ARGUMENTS_H
#define ACLNN_CLIENT_CLI_ARGUMENTS_H

#include "client/c/aclnn_client.h"
#include "client/cli/failure.h"

#include <stdio.h>

#define SERVER_ADDRESS_VARIABLE "ACLNN_SERVER_ADDRESS"
#define SERVER_ADDRESS_DEFAULT "127.0.0.1:50051"
#define NAME_BYTES_MAX 95

enum command {
  COMMAND_CALL,
  COMMAND_REPLAY,
  COMMAND_LIST,
  COMMAND_DESCRIBE,
  COMMAND_INFO,
  COMMAND_HEALTH,
  COMMAND_COUNT
};

// NAME=DTYPE[DIMS], NAME=[DTYPE:]FILE or, for outputs, NAME=[DTYPE[DIMS]:]FILE.
struct tensor_argument {
  char name[NAME_BYTES_MAX + 1];
  aclnn_data_type data_type; // UNSPECIFIED: the file's, or what the operator infers
  bool has_shape;
  size_t rank;
  int64_t shape[ACLNN_RANK_MAX];
  const char *path; // NULL: only described
};

struct attribute_argument {
  char name[NAME_BYTES_MAX + 1];
  const char *text;
};

struct arguments {
  bool help;    // then only `command` and has_command count
  bool version; // then nothing else counts
  bool has_command;
  enum command command;
  const char *operand; // operator, file or service; NULL: none given
  const char *server;
  aclnn_target target;
  aclnn_numerics numerics;
  int64_t timeout_ms;
  int retries;
  bool json;
  bool plain_data;
  struct tensor_argument inputs[ACLNN_TENSORS_MAX];
  size_t input_count;
  struct tensor_argument outputs[ACLNN_TENSORS_MAX];
  size_t output_count;
  struct attribute_argument attributes[ACLNN_TENSORS_MAX];
  size_t attribute_count;
};

// `default_server` is what holds without --server (NULL: SERVER_ADDRESS_DEFAULT).
MUST_CHECK bool arguments_parse(int count, char **values, const char *default_server,
                                struct arguments *arguments, struct failure *failure);

// What --help prints: of the program, or of one command.
void arguments_print_help(const struct arguments *arguments, FILE *file);

// The parts of the grammar, for themselves. `text` is what follows "NAME=".
MUST_CHECK bool arguments_parse_input(const char *text, struct tensor_argument *tensor,
                                      struct failure *failure);
MUST_CHECK bool arguments_parse_output(const char *text, struct tensor_argument *tensor,
                                       struct failure *failure);

#endif
