// What the programs of this benchmark have in common: they are told what to do by lines on stdin and answer
// each with a line of figures on stdout. They end when stdin ends, and with it whoever started them.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_COMMAND_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#define COMMAND_ARGUMENTS_MAX 12

struct command {
  const char *name;
  size_t argument_count;
  // Answers with figures (command_figure); what goes wrong ends the program (command_fail).
  void (*run)(void *context, const int64_t *arguments);
};

// Serves commands until stdin ends. The table ends with a command without a name.
void command_loop(const struct command *commands, void *context);

// Adds "name=value" to the answer.
void command_figure(const char *name, double value);

// Ends the program with a line on stderr: a benchmark that something is wrong with has no figures.
_Noreturn void command_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Says where a server listens, the way aclnn-server does, and returns when stdin ends.
void command_serve_until_end(const char *address);

#endif
