#include "tests/bench/transport_bench/command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 512

_Noreturn void command_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

void command_figure(const char *name, double value) {
  printf(" %s=%.9g", name, value);
}

static size_t read_arguments(char *text, int64_t arguments[COMMAND_ARGUMENTS_MAX]) {
  size_t count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(text, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
    char *end = NULL;
    if (count == COMMAND_ARGUMENTS_MAX) {
      command_fail("more than %d arguments", COMMAND_ARGUMENTS_MAX);
    }
    arguments[count++] = strtoll(word, &end, 10);
    if (*end != '\0' || arguments[count - 1] < 0) {
      command_fail("'%s' is no number", word);
    }
  }
  return count;
}

static void obey(const struct command *commands, void *context, char *line) {
  char *rest = line + strcspn(line, " \n");
  char ending = *rest;
  *rest = '\0';
  const struct command *command = commands;
  while (command->name != NULL && strcmp(command->name, line) != 0) {
    ++command;
  }
  if (command->name == NULL) {
    command_fail("no command '%s'", line);
  }
  int64_t arguments[COMMAND_ARGUMENTS_MAX];
  size_t count = ending == '\0' ? 0 : read_arguments(rest + 1, arguments);
  if (count != command->argument_count) {
    command_fail("%s takes %zu arguments, not %zu", command->name, command->argument_count, count);
  }
  fputs("ok", stdout);
  command->run(context, arguments);
  fputc('\n', stdout);
  fflush(stdout);
}

void command_loop(const struct command *commands, void *context) {
  char line[LINE_BYTES_MAX];
  while (fgets(line, sizeof line, stdin) != NULL) {
    obey(commands, context, line);
  }
}

void command_serve_until_end(const char *address) {
  printf("listening on %s\n", address);
  fflush(stdout);
  while (getchar() != EOF) {
  }
}
