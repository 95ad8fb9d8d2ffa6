// The commands that only ask: list, describe, info, health.

#include "client/cli/json.h"
#include "client/cli/session.h"

#include <stddef.h>
#include <string.h>

// ---- list and describe

static void add_parameter(cJSON *array, const aclnn_parameter_info *parameter) {
  cJSON *object = json_append_object(array);
  json_add_text(object, "name", parameter->name);
  json_add_text(object, "kind", parameter->kind);
  json_add_text(object, "direction", parameter->output ? "output" : "input");
  json_add_boolean(object, "optional", parameter->optional);
  json_add_boolean(object, "shape_only", parameter->shape_only);
  json_add_list(object, "data_types", parameter->data_types);
  json_add_list(object, "ranks", parameter->ranks);
}

static void fill_operator(cJSON *object, const aclnn_operator_info *info) {
  json_add_text(object, "name", info->name);
  json_add_boolean(object, "pure", info->pure);
  json_add_list(object, "targets", info->targets);
  cJSON *parameters = json_add_array(object, "parameters");
  for (size_t i = 0; i < info->parameter_count; i++) {
    add_parameter(parameters, &info->parameters[i]);
  }
}

static void print_operator(const aclnn_operator_info *info) {
  printf("%s\n  targets: %s\n  may be run again: %s\n", info->name, info->targets, info->pure ? "yes" : "no");
  for (size_t i = 0; i < info->parameter_count; i++) {
    const aclnn_parameter_info *parameter = &info->parameters[i];
    printf("  %-6s %-14s %s%s%s", parameter->output ? "output" : "input", parameter->name, parameter->kind,
           parameter->optional ? ", optional" : "", parameter->shape_only ? ", only the shape is read" : "");
    if (parameter->data_types[0] != '\0') {
      printf("; %s; rank %s", parameter->data_types, parameter->ranks);
    }
    putchar('\n');
  }
}

static enum exit_code print_list(const struct arguments *arguments, const aclnn_operator_info *operators,
                                 size_t count) {
  if (arguments->json) {
    cJSON *array = json_array();
    for (size_t i = 0; i < count; i++) {
      fill_operator(json_append_object(array), &operators[i]);
    }
    json_print(array);
    return EXIT_CODE_OK;
  }
  for (size_t i = 0; i < count; i++) {
    printf("%-36s %s\n", operators[i].name, operators[i].targets);
  }
  return EXIT_CODE_OK;
}

static enum exit_code print_description(const struct arguments *arguments,
                                        const aclnn_operator_info *operators, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(operators[i].name, arguments->operand) != 0) {
      continue;
    }
    if (arguments->json) {
      cJSON *object = json_object();
      fill_operator(object, &operators[i]);
      json_print(object);
    } else {
      print_operator(&operators[i]);
    }
    return EXIT_CODE_OK;
  }
  struct failure failure;
  (void)failure_set(&failure, "OPERATOR_UNKNOWN: the server has no operator '%s'; see aclnn list",
                    arguments->operand);
  return session_report_failure(arguments, &failure, EXIT_CODE_FAILED);
}

typedef enum exit_code print_operators(const struct arguments *arguments,
                                       const aclnn_operator_info *operators, size_t count);

static enum exit_code with_operators(const struct arguments *arguments, print_operators *print) {
  enum exit_code code = EXIT_CODE_OK;
  aclnn_client *client = session_open(arguments, NULL, NULL, &code);
  if (client == NULL) {
    return code;
  }
  aclnn_operator_info *operators = NULL;
  size_t count = 0;
  aclnn_error error;
  if (aclnn_list_operators(client, &operators, &count, &error) == ACLNN_OK) {
    code = print(arguments, operators, count);
  } else {
    code = session_report_error(arguments, &error);
  }
  aclnn_free(operators);
  aclnn_client_close(client);
  return code;
}

enum exit_code command_list(const struct arguments *arguments) {
  return with_operators(arguments, print_list);
}

enum exit_code command_describe(const struct arguments *arguments) {
  return with_operators(arguments, print_description);
}

// ---- info

// The numbers of the server, once for both ways to print them.
static const struct limit {
  const char *name;
  const char *label;
  size_t offset;
} LIMITS[] = {
    {"max_chunk_bytes", "largest chunk", offsetof(aclnn_server_info, max_chunk_bytes)},
    {"max_message_bytes", "largest message", offsetof(aclnn_server_info, max_message_bytes)},
    {"memory_budget_bytes", "memory budget", offsetof(aclnn_server_info, memory_budget_bytes)},
    {"max_executors", "most executors", offsetof(aclnn_server_info, max_executors)},
    {"default_ttl_ms", "executor's life, ms", offsetof(aclnn_server_info, default_ttl_ms)},
    {"max_ttl_ms", "longest life, ms", offsetof(aclnn_server_info, max_ttl_ms)},
    {"max_queue", "longest queue", offsetof(aclnn_server_info, max_queue)},
    {"max_queue_time_ms", "longest wait, ms", offsetof(aclnn_server_info, max_queue_time_ms)},
    {"idle_timeout_ms", "idle time-out, ms", offsetof(aclnn_server_info, idle_timeout_ms)},
    {"max_connections", "most connections", offsetof(aclnn_server_info, max_connections)},
};
#define LIMIT_COUNT (sizeof LIMITS / sizeof LIMITS[0])

static int64_t limit_value(const aclnn_server_info *info, const struct limit *limit) {
  int64_t value;
  memcpy(&value, (const char *)info + limit->offset, sizeof value);
  return value;
}

static void print_info_json(const aclnn_server_info *info) {
  cJSON *object = json_object();
  json_add_text(object, "server_version", info->server_version);
  json_add_integer(object, "contract_revision", info->contract_revision);
  json_add_text(object, "cpu_path", info->cpu_path);
  json_add_list(object, "codecs", info->codecs);
  json_add_list(object, "features", info->features);
  cJSON *limits = json_add_object(object, "limits");
  for (size_t i = 0; i < LIMIT_COUNT; i++) {
    json_add_integer(limits, LIMITS[i].name, limit_value(info, &LIMITS[i]));
  }
  cJSON *targets = json_add_array(object, "targets");
  for (size_t i = 0; i < info->target_count; i++) {
    cJSON *target = json_append_object(targets);
    json_add_text(target, "target", aclnn_target_name(info->targets[i].target));
    json_add_boolean(target, "available", info->targets[i].available);
    json_add_list(target, "numerics", info->targets[i].numerics);
    cJSON *devices = json_add_array(target, "devices");
    for (size_t j = 0; j < info->targets[i].device_count; j++) {
      cJSON *device = json_append_object(devices);
      json_add_text(device, "name", info->targets[i].devices[j].name);
      json_add_boolean(device, "healthy", info->targets[i].devices[j].healthy);
      json_add_text(device, "detail", info->targets[i].devices[j].detail);
    }
  }
  json_print(object);
}

static void print_info_text(const aclnn_server_info *info) {
  printf("%-20s %s\n%-20s %d\n%-20s %s\n", "aclnn-server", info->server_version, "contract revision",
         info->contract_revision, "CPU path", info->cpu_path);
  printf("%-20s %s\n%-20s %s\n", "codecs", info->codecs, "features",
         info->features[0] == '\0' ? "none" : info->features);
  for (size_t i = 0; i < LIMIT_COUNT; i++) {
    printf("%-20s %lld\n", LIMITS[i].label, (long long)limit_value(info, &LIMITS[i]));
  }
  for (size_t i = 0; i < info->target_count; i++) {
    printf("%-20s %s%s%s\n", aclnn_target_name(info->targets[i].target),
           info->targets[i].available ? "available" : "not available",
           info->targets[i].numerics[0] == '\0' ? "" : "; numerics ", info->targets[i].numerics);
    for (size_t j = 0; j < info->targets[i].device_count; j++) {
      printf("  %-18s %s %s\n", info->targets[i].devices[j].name,
             info->targets[i].devices[j].healthy ? "healthy" : "not healthy",
             info->targets[i].devices[j].detail);
    }
  }
}

enum exit_code command_info(const struct arguments *arguments) {
  enum exit_code code = EXIT_CODE_OK;
  aclnn_client *client = session_open(arguments, NULL, NULL, &code);
  if (client == NULL) {
    return code;
  }
  aclnn_server_info info;
  aclnn_error error;
  if (aclnn_get_server_info(client, &info, &error) != ACLNN_OK) {
    code = session_report_error(arguments, &error);
  } else if (arguments->json) {
    print_info_json(&info);
  } else {
    print_info_text(&info);
  }
  aclnn_client_close(client);
  return code;
}

// ---- health

// gRPC's health service answers NOT_FOUND without a word of ours.
static enum exit_code report_unknown_service(const struct arguments *arguments, const char *service) {
  struct failure failure;
  (void)failure_set(&failure,
                    "NOT_FOUND: the server has no service '%s'; there are aclnn.v1.OperatorService and, with "
                    "NPUs, npu (all of them) and npu:0, npu:1 ...; without a name the server itself is asked",
                    service);
  return session_report_failure(arguments, &failure, EXIT_CODE_FAILED);
}

enum exit_code command_health(const struct arguments *arguments) {
  enum exit_code code = EXIT_CODE_OK;
  aclnn_client *client = session_open(arguments, NULL, NULL, &code);
  if (client == NULL) {
    return code;
  }
  bool serving = false;
  aclnn_error error;
  const char *service = arguments->operand == NULL ? "" : arguments->operand;
  if (aclnn_check_health(client, service, &serving, &error) != ACLNN_OK) {
    bool unknown = error.reason[0] == '\0' && strcmp(aclnn_code_name(error.code), "NOT_FOUND") == 0;
    code = unknown ? report_unknown_service(arguments, service) : session_report_error(arguments, &error);
  } else {
    const char *word = serving ? "SERVING" : "NOT_SERVING";
    if (arguments->json) {
      cJSON *object = json_object();
      json_add_text(object, "service", service);
      json_add_text(object, "status", word);
      json_print(object);
    } else {
      puts(word);
    }
    code = serving ? EXIT_CODE_OK : EXIT_CODE_FAILED;
  }
  aclnn_client_close(client);
  return code;
}
