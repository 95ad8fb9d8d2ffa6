#include "client/c/operators.h"

#include "client/c/error.h"
#include "client/c/text_list.h"
#include "client/c/unary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof((aclnn_parameter_info){0}.name) == ARGUMENT_TEXT_BYTES_MAX + 1,
              "names are of one length");
static_assert(ACLNN_TENSORS_MAX == REQUEST_ARGUMENTS_MAX, "as many parameters as arguments");

// ---- The client's own copy

static bool fetch_operators(aclnn_client *client, const struct call_scope *scope) {
  struct operator_info *operators;
  size_t count;
  aclnn_error ignored;
  if (!unary_list_operators(client, scope, &operators, &count, &ignored)) {
    return false;
  }
  pthread_mutex_lock(&client->operators_lock);
  if (client->operators == NULL) {
    client->operators = operators;
    client->operator_count = count;
    operators = NULL;
  }
  pthread_mutex_unlock(&client->operators_lock);
  free(operators);
  return true;
}

bool operators_find(aclnn_client *client, const struct call_scope *scope, const char *name,
                    struct operator_info *info) {
  pthread_mutex_lock(&client->operators_lock);
  bool known = client->operators != NULL;
  pthread_mutex_unlock(&client->operators_lock);
  if (!known && !fetch_operators(client, scope)) {
    return false;
  }
  bool found = false;
  pthread_mutex_lock(&client->operators_lock);
  for (size_t i = 0; i < client->operator_count && !found; i++) {
    if (strcmp(client->operators[i].name, name) == 0) {
      *info = client->operators[i];
      found = true;
    }
  }
  pthread_mutex_unlock(&client->operators_lock);
  return found;
}

void operators_forget(aclnn_client *client) {
  pthread_mutex_lock(&client->operators_lock);
  free(client->operators);
  client->operators = NULL;
  client->operator_count = 0;
  pthread_mutex_unlock(&client->operators_lock);
}

// ---- aclnn_list_operators

static const char *kind_name(enum parameter_kind kind) {
  switch (kind) {
  case PARAMETER_KIND_TENSOR:
    return "tensor";
  case PARAMETER_KIND_INT_ARRAY:
    return "int_array";
  case PARAMETER_KIND_INTEGER:
    return "integer";
  case PARAMETER_KIND_REAL:
    return "real";
  case PARAMETER_KIND_BOOLEAN:
    return "boolean";
  case PARAMETER_KIND_TEXT:
    return "text";
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
  return "unknown";
}

static void describe_parameter(const struct parameter_info *from, aclnn_parameter_info *to) {
  memcpy(to->name, from->name, sizeof to->name);
  snprintf(to->kind, sizeof to->kind, "%s", kind_name(from->kind));
  to->output = from->direction == DIRECTION_OUTPUT;
  to->optional = from->optional;
  to->shape_only = from->shape_only;
  for (int type = 1; type < DATA_TYPE_COUNT; type++) {
    if ((from->data_types & (UINT64_C(1) << type)) != 0) {
      text_list_add(to->data_types, sizeof to->data_types, data_type_name((enum data_type)type));
    }
  }
  for (int rank = 0; rank <= TENSOR_RANK_MAX; rank++) {
    if ((from->ranks & (1U << rank)) != 0) {
      char text[12];
      snprintf(text, sizeof text, "%d", rank);
      text_list_add(to->ranks, sizeof to->ranks, text);
    }
  }
}

static void describe_operator(const struct operator_info *from, aclnn_operator_info *to) {
  memcpy(to->name, from->name, sizeof to->name);
  to->pure = from->effect == EFFECT_PURE;
  to->parameter_count = from->parameter_count;
  for (size_t i = 0; i < from->parameter_count; i++) {
    describe_parameter(&from->parameters[i], &to->parameters[i]);
  }
  for (int target = TARGET_CPU; target <= TARGET_NPU; target++) {
    if ((from->targets & (1U << target)) != 0) {
      text_list_add(to->targets, sizeof to->targets, target_name((enum target)target));
    }
  }
}

struct listing {
  aclnn_client *client;
  struct operator_info *operators;
  size_t count;
};

static bool try_to_list(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct listing *listing = context;
  return unary_list_operators(listing->client, scope, &listing->operators, &listing->count, error);
}

aclnn_result aclnn_list_operators(aclnn_client *client, aclnn_operator_info **operators, size_t *count,
                                  aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  struct listing listing = {.client = client};
  if (!client_try(client, &scope, try_to_list, &listing, error)) {
    return ACLNN_FAILED;
  }
  aclnn_operator_info *described = calloc(listing.count + 1, sizeof *described);
  if (described == NULL) {
    free(listing.operators);
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for %zu operators", listing.count);
    return ACLNN_FAILED;
  }
  for (size_t i = 0; i < listing.count; i++) {
    describe_operator(&listing.operators[i], &described[i]);
  }
  free(listing.operators);
  *operators = described;
  *count = listing.count;
  return ACLNN_OK;
}
