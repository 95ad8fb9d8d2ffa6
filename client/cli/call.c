// aclnn call: one job on files.

#include "client/cli/attribute.h"
#include "client/cli/json.h"
#include "client/cli/npy.h"
#include "client/cli/output_file.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

#include <inttypes.h>
#include <string.h>

// Everything that a call holds. The tensors are the inputs and, after them, the outputs.
struct call {
  const struct arguments *arguments;
  aclnn_client *client;
  struct npy_array arrays[ACLNN_TENSORS_MAX];  // by input
  struct output_file files[ACLNN_TENSORS_MAX]; // by output
  aclnn_tensor tensors[ACLNN_TENSORS_MAX];
  struct attribute_value values[ACLNN_TENSORS_MAX];
  aclnn_attribute attributes[ACLNN_TENSORS_MAX];
  aclnn_summary summary;
};

// ---- Inputs

// Fortran order is C order with strides: nothing is moved.
static void use_fortran_strides(aclnn_tensor *tensor) {
  int64_t stride = 1;
  tensor->has_strides = true;
  for (size_t i = 0; i < tensor->rank; i++) {
    tensor->strides[i] = stride;
    stride *= tensor->shape[i] > 0 ? tensor->shape[i] : 1;
  }
}

static bool use_file(const struct tensor_argument *argument, struct npy_array *array, aclnn_tensor *tensor,
                     struct failure *failure) {
  struct failure why;
  if (!npy_open(argument->path, argument->data_type, array, &why)) {
    return failure_set(failure, "--in %s: %s", argument->name, why.text);
  }
  const struct npy_header *header = &array->header;
  tensor->data_type = header->data_type;
  tensor->rank = header->rank;
  memcpy(tensor->shape, header->shape, sizeof tensor->shape);
  if (header->fortran_order && header->rank > 1) {
    use_fortran_strides(tensor);
  }
  tensor->data = array->data;
  tensor->data_bytes = header->data_bytes;
  return true;
}

static void use_description(const struct tensor_argument *argument, aclnn_tensor *tensor) {
  tensor->data_type = argument->data_type;
  tensor->rank = argument->rank;
  memcpy(tensor->shape, argument->shape, sizeof tensor->shape);
}

static bool prepare_tensors(struct call *call, struct failure *failure) {
  const struct arguments *arguments = call->arguments;
  for (size_t i = 0; i < arguments->input_count; i++) {
    const struct tensor_argument *argument = &arguments->inputs[i];
    aclnn_tensor *tensor = &call->tensors[i];
    tensor->name = argument->name;
    if (argument->path == NULL) {
      use_description(argument, tensor);
    } else if (!use_file(argument, &call->arrays[i], tensor, failure)) {
      return false;
    }
  }
  for (size_t i = 0; i < arguments->output_count; i++) {
    const struct tensor_argument *argument = &arguments->outputs[i];
    aclnn_tensor *tensor = &call->tensors[arguments->input_count + i];
    struct failure why;
    tensor->name = argument->name;
    tensor->output = true;
    use_description(argument, tensor);
    if (!output_file_open(argument->path, &call->files[i], &why)) {
      return failure_set(failure, "--out %s: %s", argument->name, why.text);
    }
  }
  return true;
}

// ---- Attributes

static const char *find_kind(const aclnn_operator_info *operators, size_t count, const char *operator_name,
                             const char *name) {
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; strcmp(operators[i].name, operator_name) == 0 && j < operators[i].parameter_count;
         j++) {
      if (strcmp(operators[i].parameters[j].name, name) == 0) {
        return operators[i].parameters[j].kind;
      }
    }
  }
  return NULL;
}

// "7" may be a number or an array of one: the operator's description tells.
static enum exit_code prepare_attributes(struct call *call) {
  const struct arguments *arguments = call->arguments;
  if (arguments->attribute_count == 0) {
    return EXIT_CODE_OK;
  }
  aclnn_operator_info *operators;
  size_t count;
  aclnn_error error;
  if (aclnn_list_operators(call->client, &operators, &count, &error) != ACLNN_OK) {
    return session_report_error(arguments, &error);
  }
  enum exit_code code = EXIT_CODE_OK;
  for (size_t i = 0; i < arguments->attribute_count && code == EXIT_CODE_OK; i++) {
    const struct attribute_argument *argument = &arguments->attributes[i];
    const char *kind = find_kind(operators, count, arguments->operand, argument->name);
    struct failure failure;
    if (!attribute_parse(argument->name, argument->text, kind, &call->values[i], &failure)) {
      code = session_report_failure(arguments, &failure, EXIT_CODE_USAGE);
    }
    call->attributes[i] = call->values[i].attribute;
  }
  aclnn_free(operators);
  return code;
}

// ---- The result

static void print_json(const struct call *call) {
  const aclnn_summary *summary = &call->summary;
  cJSON *object = json_object();
  json_add_text(object, "operator", call->arguments->operand);
  json_add_text(object, "target", aclnn_target_name(summary->target));
  json_add_text(object, "numerics", aclnn_numerics_name(summary->numerics));
  json_add_integer(object, "attempts", summary->attempts);
  json_add_integer(object, "workspace_size", (int64_t)summary->workspace_size);
  json_add_integer(object, "bytes_sent", summary->bytes_sent);
  json_add_integer(object, "bytes_received", summary->bytes_received);
  json_add_integer(object, "queue_ns", summary->queue_ns);
  json_add_integer(object, "upload_ns", summary->upload_ns);
  json_add_integer(object, "compute_ns", summary->compute_ns);
  json_add_integer(object, "download_ns", summary->download_ns);
  cJSON *outputs = json_add_array(object, "outputs");
  for (size_t i = 0; i < call->arguments->output_count; i++) {
    const aclnn_tensor *tensor = &call->tensors[call->arguments->input_count + i];
    cJSON *output = json_append_object(outputs);
    json_add_text(output, "name", tensor->name);
    json_add_text(output, "data_type", aclnn_data_type_name(tensor->data_type));
    json_add_integers(output, "shape", tensor->shape, tensor->rank);
    json_add_text(output, "file", call->arguments->outputs[i].path);
  }
  json_print(object);
}

static void print_text(const struct call *call) {
  const aclnn_summary *summary = &call->summary;
  for (size_t i = 0; i < call->arguments->output_count; i++) {
    const aclnn_tensor *tensor = &call->tensors[call->arguments->input_count + i];
    printf("%s %s[", tensor->name, aclnn_data_type_name(tensor->data_type));
    for (size_t j = 0; j < tensor->rank; j++) {
      printf("%s%" PRId64, j == 0 ? "" : ",", tensor->shape[j]);
    }
    printf("] -> %s%s\n", call->arguments->outputs[i].path,
           tensor->data_type == ACLNN_BF16 ? " (bfloat16 bits as uint16)" : "");
  }
  if (summary->attempts > 1) {
    printf("ran %d times, as devices were lost; in the end it\n", summary->attempts);
  }
  printf("ran on %s, numerics %s, workspace %" PRIu64 " bytes; sent %" PRId64 " bytes, received %" PRId64
         "; queue %.3f ms, upload %.3f, compute %.3f, download %.3f\n",
         aclnn_target_name(summary->target), aclnn_numerics_name(summary->numerics), summary->workspace_size,
         summary->bytes_sent, summary->bytes_received, (double)summary->queue_ns / 1e6,
         (double)summary->upload_ns / 1e6, (double)summary->compute_ns / 1e6,
         (double)summary->download_ns / 1e6);
}

static enum exit_code write_outputs(struct call *call) {
  struct failure failure;
  for (size_t i = 0; i < call->arguments->output_count; i++) {
    const aclnn_tensor *tensor = &call->tensors[call->arguments->input_count + i];
    if (!output_file_write(&call->files[i], tensor, &failure)) {
      return session_report_failure(call->arguments, &failure, EXIT_CODE_FAILED);
    }
  }
  if (call->arguments->json) {
    print_json(call);
  } else {
    print_text(call);
  }
  return EXIT_CODE_OK;
}

// ---- The command

static enum exit_code run(struct call *call) {
  const struct arguments *arguments = call->arguments;
  struct failure failure;
  enum exit_code code = EXIT_CODE_OK;
  if (!prepare_tensors(call, &failure)) {
    return session_report_failure(arguments, &failure, EXIT_CODE_FAILED);
  }
  struct progress progress;
  progress_init(&progress);
  call->client = session_open(arguments, progress_update, &progress, &code);
  if (call->client == NULL) {
    return code;
  }
  code = prepare_attributes(call);
  if (code != EXIT_CODE_OK) {
    return code;
  }
  const aclnn_call_arguments job = {
      .operator_name = arguments->operand,
      .tensors = call->tensors,
      .tensor_count = arguments->input_count + arguments->output_count,
      .attributes = call->attributes,
      .attribute_count = arguments->attribute_count,
  };
  aclnn_error error;
  aclnn_result result = aclnn_call(call->client, &job, &call->summary, &error);
  progress_end(&progress);
  return result == ACLNN_OK ? write_outputs(call) : session_report_error(arguments, &error);
}

enum exit_code command_call(const struct arguments *arguments) {
  struct call call = {.arguments = arguments};
  enum exit_code code = run(&call);
  for (size_t i = 0; i < arguments->output_count; i++) {
    output_file_abandon(&call.files[i]);
    aclnn_free(call.tensors[arguments->input_count + i].data);
  }
  for (size_t i = 0; i < arguments->input_count; i++) {
    npy_close(&call.arrays[i]);
  }
  aclnn_client_close(call.client);
  return code;
}
