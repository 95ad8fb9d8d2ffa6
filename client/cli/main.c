// aclnn: CANN operators on a remote aclnn-server, from the command line.

#include "client/cli/commands.h"

#include <stdlib.h>

static enum exit_code run(const struct arguments *arguments) {
  switch (arguments->command) {
  case COMMAND_CALL:
    return command_call(arguments);
  case COMMAND_REPLAY:
    return command_replay(arguments);
  case COMMAND_LIST:
    return command_list(arguments);
  case COMMAND_DESCRIBE:
    return command_describe(arguments);
  case COMMAND_INFO:
    return command_info(arguments);
  case COMMAND_HEALTH:
    return command_health(arguments);
  case COMMAND_COUNT:
    break;
  }
  return EXIT_CODE_USAGE;
}

int main(int count, char **values) {
  struct arguments arguments;
  struct failure failure;
  if (!arguments_parse(count, values, getenv(SERVER_ADDRESS_VARIABLE), &arguments, &failure)) {
    fprintf(stderr, "aclnn: %s\n", failure.text);
    return EXIT_CODE_USAGE;
  }
  if (arguments.help) {
    arguments_print_help(&arguments, stdout);
    return EXIT_CODE_OK;
  }
  if (arguments.version) {
    puts("aclnn " ACLNN_CLIENT_VERSION);
    return EXIT_CODE_OK;
  }
  enum exit_code code = run(&arguments);
  if (fflush(stdout) != 0) {
    fputs("aclnn: the result can't be printed\n", stderr);
    return EXIT_CODE_FAILED;
  }
  return code;
}
