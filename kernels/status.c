#include "kernels/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct reason_entry {
  const char *name;
  int32_t aclnn_status;
};

static const struct reason_entry reasons[REASON_COUNT] = {[REASON_NONE] = {"NONE", 0},
#define REASON_ENTRY(name, number) [REASON_##name] = {#name, number},
                                                          STATUS_REASONS(REASON_ENTRY)
#undef REASON_ENTRY
};

const char *reason_name(enum reason reason) {
  assert(reason < REASON_COUNT);
  return reasons[reason].name;
}

int32_t reason_aclnn_status(enum reason reason) {
  assert(reason < REASON_COUNT);
  return reasons[reason].aclnn_status;
}

// Bytes of the UTF-8 character that begins with `lead`.
static size_t utf8_character_bytes(unsigned char lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xe0) {
    return 2;
  }
  return lead < 0xf0 ? 3 : 4;
}

// Drops the last character if cutting the text took some of its bytes away.
static void drop_cut_character(char *text) {
  size_t end = strlen(text);
  size_t begin = end;
  while (begin > 0 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80) {
    begin--;
  }
  if (begin > 0 && begin - 1 + utf8_character_bytes((unsigned char)text[begin - 1]) > end) {
    text[begin - 1] = '\0';
  }
}

static void format_shortened(char *text, size_t text_bytes, const char *format, va_list values) {
  int length = vsnprintf(text, text_bytes, format, values);
  if (length < 0) {
    text[0] = '\0';
  }
  drop_cut_character(text);
}

static void copy_shortened(char *to, size_t to_bytes, const char *from) {
  snprintf(to, to_bytes, "%s", from);
  drop_cut_character(to);
}

bool status_fail(struct status *status, enum reason reason, const char *parameter, const char *format, ...) {
  // Filled aside first: the arguments may be parts of the very status that is being replaced.
  struct status failed = {.reason = reason, .aclnn_status = reason_aclnn_status(reason)};
  if (parameter != NULL) {
    copy_shortened(failed.parameter, sizeof failed.parameter, parameter);
  }
  va_list values;
  va_start(values, format);
  format_shortened(failed.message, sizeof failed.message, format, values);
  va_end(values);
  *status = failed;
  return false;
}

void status_add_metadata(struct status *status, const char *key, const char *format, ...) {
  if (status->metadata_count == STATUS_METADATA_MAX) {
    return;
  }
  struct status_metadata entry;
  copy_shortened(entry.key, sizeof entry.key, key);
  va_list values;
  va_start(values, format);
  format_shortened(entry.value, sizeof entry.value, format, values);
  va_end(values);
  status->metadata[status->metadata_count++] = entry;
}
