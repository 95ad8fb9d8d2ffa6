#include "client/cli/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TIMEOUT_SECONDS_MAX 1e9
#define RETRIES_MAX 1000

enum option_id {
  OPTION_HELP = 1,
  OPTION_SERVER,
  OPTION_TIMEOUT,
  OPTION_RETRIES,
  OPTION_JSON,
  OPTION_IN,
  OPTION_OUT,
  OPTION_ATTR,
  OPTION_TARGET,
  OPTION_NUMERICS,
  OPTION_PLAIN_DATA,
};

// Which commands take an option: bit 1 << enum command for each.
#define FOR_ALL (~0u)
#define FOR_CALL (1u << COMMAND_CALL)
#define FOR_REPLAY (1u << COMMAND_REPLAY)

// An option as the parser and the help see it.
static const struct option_text {
  const char *name;
  enum option_id id;
  const char *value; // NULL: takes none
  unsigned commands;
  const char *help;
} OPTIONS[] = {
    {"in", OPTION_IN, "NAME=...", FOR_CALL, "an input: a .npy file, or a shape such as fp32[2,64,112,112]"},
    {"out", OPTION_OUT, "NAME=...", FOR_CALL, "an output: the .npy file to write"},
    {"attr", OPTION_ATTR, "NAME=VALUE", FOR_CALL, "an attribute: 7,7 for an array, 1, 0.5, true or a text"},
    {"target", OPTION_TARGET, "cpu|npu|auto", FOR_CALL | FOR_REPLAY, "where to run (auto)"},
    {"numerics", OPTION_NUMERICS, "device|deterministic|exact", FOR_CALL, "which bits are wanted (device)"},
    {"plain-data", OPTION_PLAIN_DATA, NULL, FOR_CALL, "encode no tensor data, however slow the link"},
    {"server", OPTION_SERVER, "ADDRESS", FOR_ALL,
     "HOST:PORT or unix:PATH ($ACLNN_SERVER_ADDRESS, else 127.0.0.1:50051)"},
    {"timeout", OPTION_TIMEOUT, "SECONDS", FOR_ALL, "give up after this time (0: never)"},
    {"retries", OPTION_RETRIES, "N", FOR_ALL, "try again so often if the server is busy or away (2)"},
    {"json", OPTION_JSON, NULL, FOR_ALL, "print JSON"},
    {"help", OPTION_HELP, NULL, FOR_ALL, "print this"},
};
#define OPTION_COUNT (sizeof OPTIONS / sizeof OPTIONS[0])

static const struct command_text {
  const char *name;
  const char *operand; // "[X]" may be left out
  const char *help;
} COMMANDS[COMMAND_COUNT] = {
    [COMMAND_CALL] = {"call", "OPERATOR", "run an operator on .npy files"},
    [COMMAND_REPLAY] = {"replay", "FILE", "run the job of a capsule again and compare the result"},
    [COMMAND_LIST] = {"list", NULL, "list the operators that the server has"},
    [COMMAND_DESCRIBE] = {"describe", "OPERATOR", "show the parameters of an operator"},
    [COMMAND_INFO] = {"info", NULL, "show the server's version, limits and devices"},
    [COMMAND_HEALTH] = {"health", "[SERVICE]", "ask whether the server, or a service of it, is serving"},
};

// ---- Tensors

static bool parse_dimensions(const char *text, struct tensor_argument *tensor, const char **end) {
  tensor->rank = 0;
  const char *at = text;
  while (*at != ']') {
    char *after;
    errno = 0;
    long long dimension = strtoll(at, &after, 10);
    if (after == at || errno != 0 || tensor->rank == ACLNN_RANK_MAX || (*after != ',' && *after != ']')) {
      return false;
    }
    tensor->shape[tensor->rank++] = dimension;
    at = *after == ',' ? after + 1 : after;
  }
  *end = at + 1;
  return true;
}

// Reads DTYPE or DTYPE[DIMS] at the start of the text, up to ':' or the end. *rest is what follows the ':',
// NULL at the end. Without a known data type there, all of the text is *rest: a path.
static bool parse_description(const char *text, struct tensor_argument *tensor, const char **rest,
                              struct failure *failure) {
  *rest = text;
  size_t length = strcspn(text, "[:");
  char type_name[32];
  if (length == 0 || length >= sizeof type_name || text[length] == '\0') {
    return true;
  }
  memcpy(type_name, text, length);
  type_name[length] = '\0';
  aclnn_data_type data_type = aclnn_data_type_from_name(type_name);
  if (data_type == ACLNN_UNSPECIFIED) {
    return true;
  }
  const char *at = text + length;
  if (*at == '[') {
    if (!parse_dimensions(at + 1, tensor, &at) || (*at != '\0' && *at != ':')) {
      return failure_set(failure, "'%s' is no shape; write for example %s[2,3] with at most %d dimensions",
                         text, type_name, ACLNN_RANK_MAX);
    }
    tensor->has_shape = true;
  }
  tensor->data_type = data_type;
  *rest = *at == ':' ? at + 1 : NULL;
  return true;
}

static bool check_path(const char *text, const char *path, struct failure *failure) {
  size_t length = strlen(text);
  if (path != NULL && path[0] == '\0') {
    return failure_set(failure, "'%s' names no file", text);
  }
  if (path == text && length > 0 && text[length - 1] == ']') {
    return failure_set(failure, "'%s' begins with no known data type", text);
  }
  return true;
}

bool arguments_parse_input(const char *text, struct tensor_argument *tensor, struct failure *failure) {
  const char *path;
  if (!parse_description(text, tensor, &path, failure) || !check_path(text, path, failure)) {
    return false;
  }
  if (path != NULL && tensor->has_shape) {
    return failure_set(failure, "'%s': an input is a file or a shape, not both", text);
  }
  tensor->path = path;
  return true;
}

bool arguments_parse_output(const char *text, struct tensor_argument *tensor, struct failure *failure) {
  const char *path;
  if (!parse_description(text, tensor, &path, failure) || !check_path(text, path, failure)) {
    return false;
  }
  if (path == NULL) {
    return failure_set(failure, "'%s' names no file", text);
  }
  if (tensor->data_type != ACLNN_UNSPECIFIED && !tensor->has_shape) {
    return failure_set(failure, "'%s': an output is described by type and shape, such as int32[2,3]:FILE",
                       text);
  }
  tensor->path = path;
  return true;
}

// ---- Values of options

// Splits NAME=REST.
static bool split_name(const char *option, const char *text, char name[NAME_BYTES_MAX + 1], const char **rest,
                       struct failure *failure) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text) {
    return failure_set(failure, "--%s: '%s' is not of the form NAME=VALUE", option, text);
  }
  size_t length = (size_t)(equals - text);
  if (length > NAME_BYTES_MAX) {
    return failure_set(failure, "--%s: a name of %zu bytes; at most %d are allowed", option, length,
                       NAME_BYTES_MAX);
  }
  memcpy(name, text, length);
  name[length] = '\0';
  *rest = equals + 1;
  return true;
}

static bool add_tensor(bool output, const char *text, struct arguments *arguments, struct failure *failure) {
  const char *option = output ? "out" : "in";
  struct tensor_argument tensor = {0};
  const char *rest;
  struct failure why;
  if (arguments->input_count + arguments->output_count + arguments->attribute_count == ACLNN_TENSORS_MAX) {
    return failure_set(failure, "--%s: more than %d arguments", option, ACLNN_TENSORS_MAX);
  }
  if (!split_name(option, text, tensor.name, &rest, failure)) {
    return false;
  }
  if (!(output ? arguments_parse_output : arguments_parse_input)(rest, &tensor, &why)) {
    return failure_set(failure, "--%s %s: %s", option, tensor.name, why.text);
  }
  if (output) {
    for (size_t i = 0; i < arguments->output_count; i++) {
      if (strcmp(arguments->outputs[i].path, tensor.path) == 0) {
        return failure_set(failure, "--out %s: %s is the file of %s already", tensor.name, tensor.path,
                           arguments->outputs[i].name);
      }
    }
    arguments->outputs[arguments->output_count++] = tensor;
  } else {
    arguments->inputs[arguments->input_count++] = tensor;
  }
  return true;
}

static bool add_attribute(const char *text, struct arguments *arguments, struct failure *failure) {
  if (arguments->input_count + arguments->output_count + arguments->attribute_count == ACLNN_TENSORS_MAX) {
    return failure_set(failure, "--attr: more than %d arguments", ACLNN_TENSORS_MAX);
  }
  struct attribute_argument *attribute = &arguments->attributes[arguments->attribute_count];
  if (!split_name("attr", text, attribute->name, &attribute->text, failure)) {
    return false;
  }
  arguments->attribute_count++;
  return true;
}

static bool parse_target(const char *text, struct arguments *arguments, struct failure *failure) {
  for (int target = ACLNN_TARGET_AUTO; target <= ACLNN_TARGET_NPU; target++) {
    if (strcasecmp(text, aclnn_target_name((aclnn_target)target)) == 0) {
      arguments->target = (aclnn_target)target;
      return true;
    }
  }
  return failure_set(failure, "--target: '%s' is none of cpu, npu, auto", text);
}

static bool parse_numerics(const char *text, struct arguments *arguments, struct failure *failure) {
  for (int numerics = ACLNN_NUMERICS_DEVICE; numerics <= ACLNN_NUMERICS_EXACT; numerics++) {
    if (strcasecmp(text, aclnn_numerics_name((aclnn_numerics)numerics)) == 0) {
      arguments->numerics = (aclnn_numerics)numerics;
      return true;
    }
  }
  return failure_set(failure, "--numerics: '%s' is none of device, deterministic, exact", text);
}

static bool parse_timeout(const char *text, struct arguments *arguments, struct failure *failure) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 0) || seconds > TIMEOUT_SECONDS_MAX) {
    return failure_set(failure, "--timeout: '%s' is no number of seconds from 0 to %.0f", text,
                       TIMEOUT_SECONDS_MAX);
  }
  arguments->timeout_ms = (int64_t)ceil(seconds * 1000);
  return true;
}

static bool parse_retries(const char *text, struct arguments *arguments, struct failure *failure) {
  char *end;
  errno = 0;
  long retries = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || retries < 0 || retries > RETRIES_MAX) {
    return failure_set(failure, "--retries: '%s' is no number from 0 to %d", text, RETRIES_MAX);
  }
  arguments->retries = retries == 0 ? -1 : (int)retries; // 0 means the default to the library
  return true;
}

// ---- The command line

static bool take_option(enum option_id id, const char *value, struct arguments *arguments,
                        struct failure *failure) {
  switch (id) {
  case OPTION_HELP:
    arguments->help = true;
    return true;
  case OPTION_SERVER:
    arguments->server = value;
    return value[0] != '\0' || failure_set(failure, "--server: the address is empty");
  case OPTION_TIMEOUT:
    return parse_timeout(value, arguments, failure);
  case OPTION_RETRIES:
    return parse_retries(value, arguments, failure);
  case OPTION_JSON:
    arguments->json = true;
    return true;
  case OPTION_IN:
    return add_tensor(false, value, arguments, failure);
  case OPTION_OUT:
    return add_tensor(true, value, arguments, failure);
  case OPTION_ATTR:
    return add_attribute(value, arguments, failure);
  case OPTION_TARGET:
    return parse_target(value, arguments, failure);
  case OPTION_NUMERICS:
    return parse_numerics(value, arguments, failure);
  case OPTION_PLAIN_DATA:
    arguments->plain_data = true;
    return true;
  }
  return failure_set(failure, "unknown option");
}

static bool find_command(const char *name, struct arguments *arguments, struct failure *failure) {
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(COMMANDS[i].name, name) == 0) {
      arguments->command = (enum command)i;
      arguments->has_command = true;
      return true;
    }
  }
  return failure_set(failure, "'%s' is no command; see aclnn --help", name);
}

// getopt's table of what the command takes, ended by zeros.
static void list_options(enum command command, struct option *table) {
  size_t count = 0;
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (OPTIONS[i].commands & 1u << command) {
      table[count++] = (struct option){.name = OPTIONS[i].name,
                                       .has_arg = OPTIONS[i].value == NULL ? no_argument : required_argument,
                                       .val = (int)OPTIONS[i].id};
    }
  }
  table[count] = (struct option){0};
}

static bool parse_options(int count, char **values, struct arguments *arguments, struct failure *failure) {
  struct option table[OPTION_COUNT + 1];
  list_options(arguments->command, table);
  opterr = 0;
  optind = 0; // makes getopt start anew
  int found;
  while ((found = getopt_long(count, values, ":h", table, NULL)) != -1) {
    if (found == ':') {
      return failure_set(failure, "%s needs a value", values[optind - 1]);
    }
    if (found == '?') {
      return failure_set(failure, "aclnn %s has no option %s", COMMANDS[arguments->command].name,
                         values[optind - 1]);
    }
    enum option_id id = found == 'h' ? OPTION_HELP : (enum option_id)found;
    if (!take_option(id, optarg, arguments, failure)) {
      return false;
    }
  }
  return true;
}

static bool take_operand(int count, char **values, struct arguments *arguments, struct failure *failure) {
  const struct command_text *command = &COMMANDS[arguments->command];
  int left = count - optind;
  if (left > 0 && command->operand != NULL) {
    arguments->operand = values[optind];
    left--;
  }
  if (left > 0) {
    return failure_set(failure, "'%s' is one argument too many", values[count - 1]);
  }
  if (arguments->operand == NULL && command->operand != NULL && command->operand[0] != '[') {
    const char *article = strchr("AEIOU", command->operand[0]) != NULL ? "an" : "a";
    return failure_set(failure, "aclnn %s needs the name of %s %s", command->name, article, command->operand);
  }
  return true;
}

bool arguments_parse(int count, char **values, const char *default_server, struct arguments *arguments,
                     struct failure *failure) {
  memset(arguments, 0, sizeof *arguments);
  arguments->server =
      default_server == NULL || default_server[0] == '\0' ? SERVER_ADDRESS_DEFAULT : default_server;
  if (count < 2) {
    return failure_set(failure, "no command is given; see aclnn --help");
  }
  if (strcmp(values[1], "--help") == 0 || strcmp(values[1], "-h") == 0) {
    arguments->help = true;
    return true;
  }
  if (strcmp(values[1], "--version") == 0) {
    arguments->version = true;
    return true;
  }
  if (!find_command(values[1], arguments, failure) ||
      !parse_options(count - 1, values + 1, arguments, failure)) {
    return false;
  }
  return arguments->help || take_operand(count - 1, values + 1, arguments, failure);
}

// ---- Help

static void print_program_help(FILE *file) {
  fputs("usage: aclnn COMMAND ...\n\nRuns CANN operators on an aclnn-server.\n\n", file);
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    fprintf(file, "  %-9s %s\n", COMMANDS[i].name, COMMANDS[i].help);
  }
  fputs("\naclnn --version prints the version, aclnn COMMAND --help a command's options. Exit codes: 0 "
        "success, 1 the call failed,\n"
        "2 wrong usage, 3 the server can't be reached.\n",
        file);
}

static const char CALL_NOTES[] =
    "\nTensors:\n"
    "  --in NAME=FILE.npy           little-endian array, C or Fortran order; mapped, not copied\n"
    "  --in NAME=bf16:FILE.npy      the file's uint16 (or raw two-byte) elements are bfloat16 bits: numpy "
    "has\n"
    "                               no such type\n"
    "  --in NAME=fp32[2,64,112,112] only a shape, for inputs whose data are not read\n"
    "  --out NAME=FILE.npy          type and shape are the operator's; bfloat16 is written as uint16 bits\n"
    "  --out NAME=int32[2,3]:FILE.npy   type and shape are asked for\n"
    "\nExample:\n"
    "  aclnn call aclnnAdaptiveMaxPool2d --in self=x.npy --attr outputSize=7,7 \\\n"
    "      --out outputOut=y.npy --out indicesOut=i.npy\n";

static const char REPLAY_NOTES[] =
    "\nA capsule is the file that a server with --verify and --capsule-dir writes when a device's result\n"
    "is wrong. The job runs with the recorded inputs and numerics. Exit codes: 0 its result is the\n"
    "recorded one of the CPU, 1 it isn't or the call failed, 2 FILE is no capsule.\n";

void arguments_print_help(const struct arguments *arguments, FILE *file) {
  if (!arguments->has_command) {
    print_program_help(file);
    return;
  }
  const struct command_text *command = &COMMANDS[arguments->command];
  fprintf(file, "usage: aclnn %s%s%s [OPTION]...\n\nTo %s.\n\n", command->name,
          command->operand == NULL ? "" : " ", command->operand == NULL ? "" : command->operand,
          command->help);
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    const struct option_text *option = &OPTIONS[i];
    if (option->commands & 1u << arguments->command) {
      char left[48];
      snprintf(left, sizeof left, "--%s%s%s", option->name, option->value == NULL ? "" : " ",
               option->value == NULL ? "" : option->value);
      fprintf(file, "  %-38s %s\n", left, option->help);
    }
  }
  if (arguments->command == COMMAND_CALL) {
    fputs(CALL_NOTES, file);
  } else if (arguments->command == COMMAND_REPLAY) {
    fputs(REPLAY_NOTES, file);
  }
}
