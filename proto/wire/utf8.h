// UTF-8: checking, cutting and repairing. Pure functions, any thread.
#ifndef ACLNN_PROTO_WIRE_UTF8_H
#define ACLNN_PROTO_WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

// Well-formed as Unicode defines it: no over-long form, no surrogate, nothing above U+10FFFF. A NUL is
// well-formed.
bool utf8_is_valid(const char *text, size_t size);

// The most bytes, at most size_max, that the NUL-terminated text can be cut to without splitting a character.
size_t utf8_cut(const char *text, size_t size_max);

// Copies text into room bytes (room >= 4) including the NUL. A text that is too long is cut and ends with
// "...", so that it can't be taken for a shorter one that is really called so.
void utf8_copy_shortened(char *destination, size_t room, const char *text);

// Replaces each byte that is no part of a well-formed character by '?'. The length stays.
void utf8_repair(char *text);

#endif
