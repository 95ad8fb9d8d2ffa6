#include "server/observe/log.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {"debug", "info", "warning", "error"};

static int64_t machine_unix_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void format_time(int64_t unix_ms, char *text, size_t text_bytes) {
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm parts;
  char whole[32];
  gmtime_r(&seconds, &parts);
  strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text, text_bytes, "%s.%03dZ", whole, (int)(unix_ms % 1000));
}

static bool add_field(cJSON *line, const struct log_field *field) {
  if (field->kind == LOG_FIELD_INTEGER) {
    // cJSON's own numbers are doubles, which don't hold every 64-bit integer.
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, field->integer);
    return cJSON_AddRawToObject(line, field->name, number) != NULL;
  }
  return (field->text == NULL ? cJSON_AddNullToObject(line, field->name)
                              : cJSON_AddStringToObject(line, field->name, field->text)) != NULL;
}

static void write_line(int descriptor, char *text) {
  size_t size = strlen(text);
  text[size++] = '\n'; // in place of the terminating NUL: one write, so that lines of threads don't mix
  for (size_t written = 0; written < size;) {
    ssize_t result = write(descriptor, text + written, size - written);
    if (result <= 0) {
      return; // nobody could be told
    }
    written += (size_t)result;
  }
}

void log_write(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields, size_t field_count) {
  if (level < log->level) {
    return;
  }
  char time_text[64];
  format_time(log->unix_ms == NULL ? machine_unix_ms() : log->unix_ms(), time_text, sizeof time_text);
  cJSON *line = cJSON_CreateObject();
  bool ok = cJSON_AddStringToObject(line, "time", time_text) != NULL &&
            cJSON_AddStringToObject(line, "level", level_names[level]) != NULL &&
            cJSON_AddStringToObject(line, "message", message) != NULL;
  for (size_t i = 0; ok && i < field_count; ++i) {
    ok = add_field(line, &fields[i]);
  }
  char *text = ok ? cJSON_PrintUnformatted(line) : NULL;
  if (text != NULL) {
    write_line(log->descriptor, text);
  }
  cJSON_free(text);
  cJSON_Delete(line);
}
