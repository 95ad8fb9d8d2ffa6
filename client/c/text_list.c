#include "client/c/text_list.h"

#include <stdio.h>
#include <string.h>

void text_list_add(char *list, size_t list_bytes, const char *item) {
  size_t length = strlen(list);
  const char *separator = length == 0 ? "" : ", ";
  if (length + strlen(separator) + strlen(item) < list_bytes) {
    snprintf(list + length, list_bytes - length, "%s%s", separator, item);
  }
}
