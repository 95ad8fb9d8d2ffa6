#include "proto/wire/utf8.h"

#include <string.h>

// Length of the well-formed character at the start of text, 0 if there is none.
static size_t character_bytes(const unsigned char *text, size_t size) {
  unsigned char first = text[0];
  if (first < 0x80) {
    return 1;
  }
  // The second byte's range tells over-long forms, surrogates and too large numbers from the good ones.
  size_t bytes;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    bytes = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    bytes = 3;
    low = first == 0xe0 ? 0xa0 : 0x80;
    high = first == 0xed ? 0x9f : 0xbf;
  } else if (first >= 0xf0 && first <= 0xf4) {
    bytes = 4;
    low = first == 0xf0 ? 0x90 : 0x80;
    high = first == 0xf4 ? 0x8f : 0xbf;
  } else {
    return 0;
  }
  if (size < bytes || text[1] < low || text[1] > high) {
    return 0;
  }
  for (size_t i = 2; i < bytes; i++) {
    if ((text[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  return bytes;
}

bool utf8_is_valid(const char *text, size_t size) {
  const unsigned char *bytes = (const unsigned char *)text;
  for (size_t at = 0; at < size;) {
    size_t length = character_bytes(bytes + at, size - at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

size_t utf8_cut(const char *text, size_t size_max) {
  size_t size = strnlen(text, size_max + 1);
  if (size <= size_max) {
    return size;
  }
  // Back to the first byte of the character that would be split; more than three steps back it is no UTF-8.
  size_t cut = size_max;
  while (cut > 0 && size_max - cut < 3 && ((unsigned char)text[cut] & 0xc0) == 0x80) {
    cut--;
  }
  return ((unsigned char)text[cut] & 0xc0) == 0x80 ? size_max : cut;
}

void utf8_copy_shortened(char *destination, size_t room, const char *text) {
  static const char ellipsis[] = "...";
  size_t size = strnlen(text, room);
  if (size < room) {
    memcpy(destination, text, size + 1);
    return;
  }
  size_t cut = utf8_cut(text, room - sizeof ellipsis);
  memcpy(destination, text, cut);
  memcpy(destination + cut, ellipsis, sizeof ellipsis);
}

void utf8_repair(char *text) {
  size_t size = strlen(text);
  for (size_t at = 0; at < size;) {
    size_t length = character_bytes((const unsigned char *)text + at, size - at);
    if (length == 0) {
      text[at] = '?';
      length = 1;
    }
    at += length;
  }
}
