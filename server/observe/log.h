// Structured log lines: one JSON object a line with time, level, message and fields.
//
// A leaf: knows nothing of the server. A log is a value that is never changed after it was made, so it may be
// used from any thread; each line leaves in one write.
#ifndef ACLNN_SERVER_OBSERVE_LOG_H
#define ACLNN_SERVER_OBSERVE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };

struct log {
  int descriptor;           // borrowed
  enum log_level level;     // lesser lines are left out
  int64_t (*unix_ms)(void); // NULL: the machine's clock
};

enum log_field_kind { LOG_FIELD_TEXT, LOG_FIELD_INTEGER };

struct log_field {
  const char *name;
  enum log_field_kind kind;
  const char *text; // NULL is written as null
  int64_t integer;
};

#define LOG_TEXT(name_, value) ((struct log_field){.name = (name_), .kind = LOG_FIELD_TEXT, .text = (value)})
#define LOG_INTEGER(name_, value)                                                                            \
  ((struct log_field){.name = (name_), .kind = LOG_FIELD_INTEGER, .integer = (value)})

void log_write(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields, size_t field_count);

// log_event(&log, LOG_INFO, "listening", LOG_TEXT("address", address)): at least one field.
#define log_event(log_, level_, message_, ...)                                                               \
  log_write(log_, level_, message_, (const struct log_field[]){__VA_ARGS__},                                 \
            sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

#endif
