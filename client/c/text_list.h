// Comma-separated lists in fixed buffers. Pure.
#ifndef ACLNN_CLIENT_C_TEXT_LIST_H
#define ACLNN_CLIENT_C_TEXT_LIST_H

#include <stddef.h>

// Appends ", item" (or "item" to an empty list); leaves out what doesn't fit as a whole.
void text_list_add(char *list, size_t list_bytes, const char *item);

#endif
