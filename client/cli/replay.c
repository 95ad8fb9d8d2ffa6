// aclnn replay: the job of a capsule once more, its result beside the recorded ones.

#include "client/cli/capsule_file.h"
#include "client/cli/difference.h"
#include "client/cli/json.h"
#include "client/cli/session.h"

#include <inttypes.h>
#include <string.h>

struct replay {
  const struct arguments *arguments;
  struct capsule_file capsule;
  aclnn_summary summary;
  struct difference from_device[ACLNN_TENSORS_MAX], from_cpu[ACLNN_TENSORS_MAX]; // by position; of outputs
};

static bool compare(struct replay *replay, struct failure *failure) {
  const struct capsule_file *capsule = &replay->capsule;
  for (size_t i = 0; i < capsule->tensor_count; i++) {
    const aclnn_tensor *tensor = &capsule->tensors[i];
    const struct capsule_tensor *recorded = &capsule->recorded[i];
    if (!tensor->output) {
      continue;
    }
    if (tensor->data_bytes != recorded->bytes) {
      return failure_set(failure, "%s has %zu bytes, the recorded ones have %zu", tensor->name,
                         tensor->data_bytes, recorded->bytes);
    }
    difference_find(tensor->data_type, tensor->data, recorded->device, recorded->bytes,
                    &replay->from_device[i]);
    difference_find(tensor->data_type, tensor->data, recorded->cpu, recorded->bytes, &replay->from_cpu[i]);
  }
  return true;
}

// Whether all outputs are those of the array.
static bool is_same(const struct capsule_file *capsule, const struct difference *differences) {
  bool same = true;
  for (size_t i = 0; i < capsule->tensor_count; i++) {
    same = same && (!capsule->tensors[i].output || differences[i].differing == 0);
  }
  return same;
}

static const char *verdict(bool cpu, bool device) {
  if (cpu) {
    return device ? "CPU and device" : "CPU";
  }
  return device ? "device" : "none";
}

static void print_line(const aclnn_tensor *tensor, const char *recorded,
                       const struct difference *difference) {
  printf("%-20s %-8s %14" PRId64 " %14" PRId64 "  ", tensor->name, recorded, difference->elements,
         difference->differing);
  if (difference->differing == 0) {
    puts("-");
  } else {
    printf("%" PRId64 ": 0x%s, recorded 0x%s\n", difference->first, difference->actual, difference->recorded);
  }
}

static void print_text(const struct replay *replay, bool cpu, bool device) {
  const struct capsule_file *capsule = &replay->capsule;
  const aclnn_summary *summary = &replay->summary;
  printf("%s, numerics %s, recorded on %s by server %s\n", capsule->operator_name,
         aclnn_numerics_name(capsule->numerics), capsule->device[0] == '\0' ? "a device" : capsule->device,
         capsule->server_version[0] == '\0' ? "unknown" : capsule->server_version);
  printf("ran on %s, numerics %s, attempts %d\n\n", aclnn_target_name(summary->target),
         aclnn_numerics_name(summary->numerics), summary->attempts);
  printf("%-20s %-8s %14s %14s  %s\n", "output", "recorded", "elements", "differing",
         "first, by place in the storage");
  for (size_t i = 0; i < capsule->tensor_count; i++) {
    if (capsule->tensors[i].output) {
      print_line(&capsule->tensors[i], "device", &replay->from_device[i]);
      print_line(&capsule->tensors[i], "CPU", &replay->from_cpu[i]);
    }
  }
  printf("\nequals: %s\n", verdict(cpu, device));
}

static void add_difference(cJSON *output, const char *name, const struct difference *difference) {
  cJSON *object = json_add_object(output, name);
  json_add_integer(object, "elements", difference->elements);
  json_add_integer(object, "differing", difference->differing);
  json_add_integer(object, "first", difference->first);
}

static void print_json(const struct replay *replay, bool cpu, bool device) {
  const struct capsule_file *capsule = &replay->capsule;
  cJSON *object = json_object();
  json_add_text(object, "operator", capsule->operator_name);
  json_add_text(object, "target", aclnn_target_name(replay->summary.target));
  json_add_text(object, "numerics", aclnn_numerics_name(replay->summary.numerics));
  json_add_integer(object, "attempts", replay->summary.attempts);
  json_add_boolean(object, "equals_cpu", cpu);
  json_add_boolean(object, "equals_device", device);
  cJSON *outputs = json_add_array(object, "outputs");
  for (size_t i = 0; i < capsule->tensor_count; i++) {
    if (capsule->tensors[i].output) {
      cJSON *output = json_append_object(outputs);
      json_add_text(output, "name", capsule->tensors[i].name);
      add_difference(output, "cpu", &replay->from_cpu[i]);
      add_difference(output, "device", &replay->from_device[i]);
    }
  }
  json_print(object);
}

static enum exit_code tell(struct replay *replay) {
  struct failure failure;
  if (!compare(replay, &failure)) {
    return session_report_failure(replay->arguments, &failure, EXIT_CODE_FAILED);
  }
  bool cpu = is_same(&replay->capsule, replay->from_cpu);
  bool device = is_same(&replay->capsule, replay->from_device);
  if (replay->arguments->json) {
    print_json(replay, cpu, device);
  } else {
    print_text(replay, cpu, device);
  }
  return cpu ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

static enum exit_code run(struct replay *replay) {
  struct capsule_file *capsule = &replay->capsule;
  struct arguments arguments = *replay->arguments;
  arguments.numerics = capsule->numerics;
  enum exit_code code = EXIT_CODE_OK;
  aclnn_client *client = session_open(&arguments, NULL, NULL, &code);
  if (client == NULL) {
    return code;
  }
  const aclnn_call_arguments job = {
      .operator_name = capsule->operator_name,
      .tensors = capsule->tensors,
      .tensor_count = capsule->tensor_count,
      .attributes = capsule->attributes,
      .attribute_count = capsule->attribute_count,
  };
  aclnn_error error;
  aclnn_result result = aclnn_call(client, &job, &replay->summary, &error);
  code = result == ACLNN_OK ? tell(replay) : session_report_error(replay->arguments, &error);
  aclnn_client_close(client);
  return code;
}

enum exit_code command_replay(const struct arguments *arguments) {
  struct replay replay;
  struct failure failure;
  replay = (struct replay){.arguments = arguments};
  if (!capsule_file_open(arguments->operand, &replay.capsule, &failure)) {
    return session_report_failure(arguments, &failure, EXIT_CODE_USAGE);
  }
  enum exit_code code = run(&replay);
  for (size_t i = 0; i < replay.capsule.tensor_count; i++) {
    if (replay.capsule.tensors[i].output) {
      aclnn_free(replay.capsule.tensors[i].data);
    }
  }
  capsule_file_close(&replay.capsule);
  return code;
}
