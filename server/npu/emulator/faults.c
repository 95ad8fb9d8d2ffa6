#include "server/npu/emulator/faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 1024
#define SLOW_MILLISECONDS 1000

static const char *const kind_names[FAULT_KINDS] = {
    [FAULT_CRASH] = "crash", [FAULT_HANG] = "hang",
    [FAULT_SLOW] = "slow",   [FAULT_ECC] = "ecc",
    [FAULT_FLIP] = "flip",   [FAULT_MEMORY] = "memory",
    [FAULT_STUB] = "stub",   [FAULT_REFUSE_INIT] = "refuse-init",
};

static bool parse_number(const char *text, int64_t least, int64_t *number) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least) {
    return false;
  }
  *number = value;
  return true;
}

static bool parse_option(const char *text, struct fault *fault) {
  int64_t number;
  const char *value = strchr(text, '=');
  if (value == NULL || !parse_number(value + 1, 0, &number)) {
    return false;
  }
  size_t length = (size_t)(value - text);
  if (length == 6 && strncmp(text, "device", length) == 0 && number <= INT32_MAX) {
    fault->device = (int32_t)number;
  } else if (length == 5 && strncmp(text, "count", length) == 0 && number > 0) {
    fault->count = (uint64_t)number;
  } else if (length == 5 && strncmp(text, "every", length) == 0 && number > 0) {
    fault->every = (uint64_t)number;
  } else if (length == 8 && strncmp(text, "elements", length) == 0) {
    fault->elements = number;
  } else if (length == 2 && strncmp(text, "ms", length) == 0) {
    fault->milliseconds = number;
  } else {
    return false;
  }
  return true;
}

static bool parse_fault(char *text, struct fault *fault) {
  char *rest = NULL;
  *fault =
      (struct fault){.kind = FAULT_KINDS, .device = -1, .milliseconds = SLOW_MILLISECONDS, .elements = -1};
  char *head = strtok_r(text, ":", &rest);
  if (head == NULL) {
    return false;
  }
  char *at = strchr(head, '@');
  if (at != NULL) {
    int64_t first;
    *at = '\0';
    if (!parse_number(at + 1, 1, &first)) {
      return false;
    }
    fault->first = (uint64_t)first;
  }
  for (int kind = 0; kind < FAULT_KINDS; kind++) {
    if (strcmp(head, kind_names[kind]) == 0) {
      fault->kind = (enum fault_kind)kind;
    }
  }
  if (fault->kind == FAULT_KINDS || (at != NULL && fault->kind >= FAULT_REFUSE_INIT)) {
    return false;
  }
  for (char *option = strtok_r(NULL, ":", &rest); option != NULL; option = strtok_r(NULL, ":", &rest)) {
    if (!parse_option(option, fault)) {
      return false;
    }
  }
  if (fault->every == 0 && fault->first != 0 && fault->count == 0) {
    fault->count = 1;
  }
  if (fault->first == 0) {
    fault->first = fault->every == 0 ? 1 : fault->every;
  }
  fault->every = fault->every == 0 ? 1 : fault->every;
  return true;
}

bool faults_parse(const char *text, struct faults *faults, struct status *status) {
  faults->count = 0;
  char copy[TEXT_BYTES_MAX];
  if (text == NULL) {
    return true;
  }
  if (strlen(text) >= sizeof copy) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "the list of faults is longer than %zu bytes",
                       sizeof copy - 1);
  }
  strcpy(copy, text);
  char *rest = NULL;
  for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
    size_t offset = (size_t)(word - copy), length = strlen(word);
    if (faults->count == FAULTS_MAX) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "more than %d faults", FAULTS_MAX);
    }
    if (!parse_fault(word, &faults->list[faults->count++])) {
      return status_fail(status, REASON_CONFIGURATION, NULL,
                         "'%.*s' is no fault: KIND[@N][:device=D][:count=C][:every=E][:ms=M][:elements=L] is",
                         (int)length, text + offset);
    }
  }
  return true;
}

static bool has_output(const struct fault_occasion *occasion, int64_t elements) {
  for (size_t i = 0; i < occasion->element_count; i++) {
    if (occasion->elements[i] == elements) {
      return true;
    }
  }
  return false;
}

static bool is_meant(const struct fault *fault, const struct fault_occasion *occasion) {
  uint64_t n = occasion->number;
  if ((fault->device >= 0 && fault->device != occasion->device) || n < fault->first ||
      (n - fault->first) % fault->every != 0 ||
      (fault->elements >= 0 && !has_output(occasion, fault->elements))) {
    return false;
  }
  return fault->count == 0 || (n - fault->first) / fault->every < fault->count;
}

const struct fault *faults_find(const struct faults *faults, enum fault_kind kind,
                                const struct fault_occasion *occasion) {
  for (size_t i = 0; i < faults->count; i++) {
    if (faults->list[i].kind == kind && is_meant(&faults->list[i], occasion)) {
      return &faults->list[i];
    }
  }
  return NULL;
}
