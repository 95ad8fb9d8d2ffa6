// The value of an attribute, from the text of the command line. Pure, any thread.
#ifndef ACLNN_CLIENT_CLI_ATTRIBUTE_H
#define ACLNN_CLIENT_CLI_ATTRIBUTE_H

#include "client/c/aclnn_client.h"
#include "client/cli/failure.h"

#define ATTRIBUTE_VALUES_MAX 8

struct attribute_value {
  int64_t values[ATTRIBUTE_VALUES_MAX]; // what attribute.values points to
  aclnn_attribute attribute;
};

// `kind` is the operator's word for it ("int_array", "integer", "real", "boolean", "text"); NULL: guess from
// the text. `name` and `text` must outlive *value, which must not be moved.
MUST_CHECK bool attribute_parse(const char *name, const char *text, const char *kind,
                                struct attribute_value *value, struct failure *failure);

#endif
