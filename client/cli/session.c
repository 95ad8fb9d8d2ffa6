#include "client/cli/session.h"

#include "client/cli/json.h"

#include <string.h>

aclnn_client *session_open(const struct arguments *arguments, aclnn_progress *progress,
                           void *progress_context, enum exit_code *code) {
  const aclnn_client_options options = {
      .target_address = arguments->server,
      .target = arguments->target,
      .numerics = arguments->numerics,
      .timeout_ms = arguments->timeout_ms,
      .retries = arguments->retries,
      .plain_data = arguments->plain_data,
      .progress = progress,
      .progress_context = progress_context,
  };
  aclnn_client *client = NULL;
  aclnn_error error;
  if (aclnn_client_open(&options, &client, &error) != ACLNN_OK) {
    *code = session_report_error(arguments, &error);
    return NULL;
  }
  return client;
}

static bool is_unreachable(const aclnn_error *error) {
  // Without a reason of the server's the transport speaks.
  return error->reason[0] == '\0' && strcmp(aclnn_code_name(error->code), "UNAVAILABLE") == 0;
}

enum exit_code session_report_error(const struct arguments *arguments, const aclnn_error *error) {
  const char *reason = error->reason[0] == '\0' ? aclnn_code_name(error->code) : error->reason;
  fprintf(stderr, "aclnn: %s", reason);
  if (error->aclnn_status != 0) {
    fprintf(stderr, " (%d)", error->aclnn_status);
  }
  fprintf(stderr, ": %s\n", error->message);
  if (arguments->json) {
    cJSON *object = json_object();
    cJSON *details = json_add_object(object, "error");
    json_add_text(details, "code", aclnn_code_name(error->code));
    json_add_text(details, "reason", error->reason);
    json_add_integer(details, "aclnn_status", error->aclnn_status);
    json_add_text(details, "parameter", error->parameter);
    json_add_text(details, "message", error->message);
    json_print(object);
  }
  return is_unreachable(error) ? EXIT_CODE_UNREACHABLE : EXIT_CODE_FAILED;
}

enum exit_code session_report_failure(const struct arguments *arguments, const struct failure *failure,
                                      enum exit_code code) {
  fprintf(stderr, "aclnn: %s\n", failure->text);
  if (arguments->json) {
    cJSON *object = json_object();
    json_add_text(json_add_object(object, "error"), "message", failure->text);
    json_print(object);
  }
  return code;
}
