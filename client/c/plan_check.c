#include "client/c/plan_check.h"

#include "client/c/reply_breach.h"

#include <inttypes.h>
#include <string.h>

static bool breach(struct status *status, const char *name, const char *what) {
  return status_fail(status, REASON_INTERNAL, name, REPLY_BREACH "its plan of %s %s", name, what);
}

// Two normalised descriptors; strides of a dim that has one element say nothing.
static bool is_same_view(const struct tensor_desc *a, const struct tensor_desc *b) {
  if (a->data_type != b->data_type || a->rank != b->rank || a->storage_offset != b->storage_offset ||
      a->storage_elements != b->storage_elements) {
    return false;
  }
  for (size_t dim = 0; dim < a->rank; dim++) {
    if (a->shape[dim] != b->shape[dim] || (a->shape[dim] > 1 && a->strides[dim] != b->strides[dim])) {
      return false;
    }
  }
  return true;
}

// The format says nothing about how a tensor lies, and one that this client doesn't know is no reason to
// refuse a reply.
static bool normalise(const struct tensor_desc *given, enum direction direction, const char *name,
                      struct tensor_desc *desc, struct status *status) {
  *desc = *given;
  desc->format = FORMAT_ND;
  return tensor_desc_normalise(desc, direction, name, status);
}

static bool check_desc(const struct tensor_desc *asked, const struct tensor_plan *plan,
                       struct status *status) {
  struct tensor_desc planned, wanted;
  struct status why;
  if (!normalise(&plan->desc, plan->direction, plan->name, &planned, &why)) {
    return status_fail(status, REASON_INTERNAL, plan->name, REPLY_BREACH "its plan makes no sense: %s",
                       why.message);
  }
  if (plan->storage_bytes != tensor_desc_storage_bytes(&planned)) {
    return status_fail(status, REASON_INTERNAL, plan->name,
                       REPLY_BREACH "its plan of %s has %" PRId64 " bytes, but describes %" PRId64,
                       plan->name, plan->storage_bytes, tensor_desc_storage_bytes(&planned));
  }
  if (tensor_desc_is_unspecified(asked)) {
    if (!tensor_desc_is_contiguous(&planned) || !tensor_desc_fills_storage(&planned) ||
        planned.storage_offset != 0) {
      return breach(status, plan->name, "isn't contiguous, though it was left to the operator");
    }
    return true;
  }
  if (!normalise(asked, plan->direction, plan->name, &wanted, &why) || !is_same_view(&wanted, &planned)) {
    return breach(status, plan->name, "describes another tensor than the request");
  }
  return true;
}

static bool check_tensor(const struct argument *asked, const struct tensor_plan *plan,
                         struct status *status) {
  if (strcmp(plan->name, asked->name) != 0) {
    return breach(status, asked->name, "is missing or out of order");
  }
  if (plan->direction != DIRECTION_INPUT && plan->direction != DIRECTION_OUTPUT) {
    return breach(status, plan->name, "has no direction");
  }
  if (plan->direction == DIRECTION_OUTPUT && !plan->transferred) {
    return breach(status, plan->name, "doesn't transfer this output");
  }
  return check_desc(&asked->value.tensor, plan, status);
}

bool plan_check(const struct operator_request *request, const struct workspace_size_response *plan,
                struct status *status) {
  size_t tensors = 0;
  for (size_t i = 0; i < request->argument_count; i++) {
    tensors += request->arguments[i].value.kind == PARAMETER_KIND_TENSOR;
  }
  if (tensors != plan->tensor_count) {
    return status_fail(status, REASON_INTERNAL, NULL,
                       REPLY_BREACH "its plan has %zu tensors, the request %zu", plan->tensor_count, tensors);
  }
  const struct tensor_plan *next = plan->tensors;
  for (size_t i = 0; i < request->argument_count; i++) {
    if (request->arguments[i].value.kind == PARAMETER_KIND_TENSOR &&
        !check_tensor(&request->arguments[i], next++, status)) {
      return false;
    }
  }
  return true;
}
