// What the commands do. Each prints its result to stdout, its failure to stderr, and returns the exit code.
#ifndef ACLNN_CLIENT_CLI_COMMANDS_H
#define ACLNN_CLIENT_CLI_COMMANDS_H

#include "client/cli/arguments.h"

enum exit_code { EXIT_CODE_OK = 0, EXIT_CODE_FAILED = 1, EXIT_CODE_USAGE = 2, EXIT_CODE_UNREACHABLE = 3 };

enum exit_code command_call(const struct arguments *arguments);
enum exit_code command_replay(const struct arguments *arguments);
enum exit_code command_list(const struct arguments *arguments);
enum exit_code command_describe(const struct arguments *arguments);
enum exit_code command_info(const struct arguments *arguments);
enum exit_code command_health(const struct arguments *arguments);

#endif
