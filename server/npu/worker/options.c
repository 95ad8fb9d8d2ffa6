#include "server/npu/worker/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// CANN's own limit for one operator is 1091 s; nobody waits that long for a pooling.
#define SYNC_TIMEOUT_MS_STANDARD 60000

enum option_kind { OPTION_SWITCH, OPTION_TEXT, OPTION_NUMBER, OPTION_AFFINITY, OPTION_COPIES };

struct option_row {
  const char *name;
  enum option_kind kind;
  size_t offset; // of the value in struct options
  int64_t least, most;
  const char *value_name;
  const char *help;
};

#define AT(member) offsetof(struct options, member)

static const struct option_row rows[] = {
    {"--device", OPTION_NUMBER, AT(device), 0, INT32_MAX, "N",
     "the device, as CANN counts the visible ones (default 0)"},
    {"--library", OPTION_TEXT, AT(library), 0, 0, "FILE",
     "one library with all functions, such as the emulated device (default: CANN's)"},
    {"--deterministic", OPTION_SWITCH, AT(deterministic), 0, 0, NULL, "results that are the same each time"},
    {"--affinity", OPTION_AFFINITY, AT(affinity), 0, 0, "auto|off",
     "run on the processors near the device (default auto)"},
    {"--sync-timeout", OPTION_NUMBER, AT(sync_timeout_ms), 1, INT32_MAX, "MS",
     "how long the device may take for one job (default 60000)"},
    {"--copies", OPTION_COPIES, AT(copies), 0, 0, "auto|direct|staged",
     "how tensors come to the device (default auto: what is faster)"},
    {"--parent", OPTION_NUMBER, AT(parent), 1, INT32_MAX, "PID", "the server's process"},
    {"--self-test", OPTION_SWITCH, AT(self_test), 0, 0, NULL,
     "run small jobs with known answers on the device, print a table, exit with 0 if all are right"},
    {"--help", OPTION_SWITCH, AT(help), 0, 0, NULL, "print this and exit"},
    {"--version", OPTION_SWITCH, AT(version), 0, 0, NULL, "print the version and exit"},
};

#define ROWS (sizeof rows / sizeof rows[0])

static bool parse_number(const struct option_row *row, const char *text, int64_t *value,
                         struct status *status) {
  errno = 0;
  char *end;
  long long number = strtoll(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < row->least ||
      number > row->most) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "%s: \"%s\" isn't a number from %lld to %lld",
                       row->name, text, (long long)row->least, (long long)row->most);
  }
  *value = number;
  return true;
}

// The position of the text in a list such as "auto|off", or -1.
static int choice_of(const char *choices, const char *text) {
  size_t length = strlen(text);
  for (int i = 0; choices != NULL; i++) {
    size_t choice_length = strcspn(choices, "|");
    if (choice_length == length && strncmp(choices, text, length) == 0) {
      return i;
    }
    choices = choices[choice_length] == '|' ? choices + choice_length + 1 : NULL;
  }
  return -1;
}

static bool set_value(struct options *options, const struct option_row *row, const char *text,
                      struct status *status) {
  static const enum transfer_way ways[] = {TRANSFER_MEASURED, TRANSFER_DIRECT, TRANSFER_STAGED};
  void *member = (char *)options + row->offset;
  if (row->kind == OPTION_SWITCH) {
    *(bool *)member = true;
    return true;
  }
  if (row->kind == OPTION_TEXT) {
    *(const char **)member = text;
    return true;
  }
  if (row->kind == OPTION_NUMBER) {
    return parse_number(row, text, member, status);
  }
  int choice = choice_of(row->value_name, text);
  if (choice < 0) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "%s: \"%s\" isn't one of %s", row->name, text,
                       row->value_name);
  }
  if (row->kind == OPTION_AFFINITY) {
    *(bool *)member = choice == 0;
  } else {
    *(enum transfer_way *)member = ways[choice];
  }
  return true;
}

bool options_parse(int argument_count, char **arguments, struct options *options, struct status *status) {
  *options = (struct options){
      .affinity = true, .sync_timeout_ms = SYNC_TIMEOUT_MS_STANDARD, .copies = TRANSFER_MEASURED};
  for (int i = 1; i < argument_count; i++) {
    const struct option_row *row = NULL;
    for (size_t j = 0; j < ROWS && row == NULL; j++) {
      row = strcmp(arguments[i], rows[j].name) == 0 ? &rows[j] : NULL;
    }
    if (row == NULL) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "unknown option \"%s\", see --help",
                         arguments[i]);
    }
    if (row->kind != OPTION_SWITCH && ++i == argument_count) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "%s needs a value: %s", row->name,
                         row->value_name);
    }
    if (!set_value(options, row, arguments[i], status)) {
      return false;
    }
  }
  return true;
}

void options_print_help(FILE *stream) {
  fprintf(stream, "usage: aclnn-npu-worker --self-test [--device N] [--library FILE]\n"
                  "       aclnn-npu-worker --device N --parent PID ...    (started by aclnn-server)\n\n"
                  "Runs jobs on one NPU through CANN's libraries.\n\n");
  for (size_t i = 0; i < ROWS; i++) {
    char head[64];
    snprintf(head, sizeof head, "%s %s", rows[i].name, rows[i].value_name != NULL ? rows[i].value_name : "");
    fprintf(stream, "  %-28s %s\n", head, rows[i].help);
  }
}
