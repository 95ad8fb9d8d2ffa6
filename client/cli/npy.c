#include "client/cli/npy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t MAGIC[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
#define DATA_ALIGNMENT 64
// Magic, version and, as of version 1.0, two bytes of length.
#define PREAMBLE_BYTES 10

static const struct element_type {
  const char *kind; // after the byte order: '<', or '|' where there is none
  aclnn_data_type data_type;
  size_t bytes;
} ELEMENT_TYPES[] = {
    {"f4", ACLNN_FLOAT, 4},       {"f2", ACLNN_FLOAT16, 2}, {"f8", ACLNN_DOUBLE, 8}, {"i1", ACLNN_INT8, 1},
    {"i2", ACLNN_INT16, 2},       {"i4", ACLNN_INT32, 4},   {"i8", ACLNN_INT64, 8},  {"u1", ACLNN_UINT8, 1},
    {"u2", ACLNN_UINT16, 2},      {"u4", ACLNN_UINT32, 4},  {"u8", ACLNN_UINT64, 8}, {"b1", ACLNN_BOOL, 1},
    {"V2", ACLNN_UNSPECIFIED, 2},
};
#define ELEMENT_TYPE_COUNT (sizeof ELEMENT_TYPES / sizeof ELEMENT_TYPES[0])

// ---- The dictionary of a header, as Python would write it

struct text {
  const char *at;
  const char *end;
};

static void skip_blanks(struct text *text) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\t')) {
    text->at++;
  }
}

// Steps over the character, and blanks before it, if it is the next one.
static bool take(struct text *text, char character) {
  skip_blanks(text);
  if (text->at == text->end || *text->at != character) {
    return false;
  }
  text->at++;
  return true;
}

static bool next_is(struct text *text, char character) {
  skip_blanks(text);
  return text->at < text->end && *text->at == character;
}

static bool take_word(struct text *text, const char *word) {
  skip_blanks(text);
  size_t length = strlen(word);
  if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0) {
    return false;
  }
  text->at += length;
  return true;
}

static bool take_string(struct text *text, char *out, size_t out_bytes) {
  char quote = '\'';
  if (!take(text, quote)) {
    quote = '"';
    if (!take(text, quote)) {
      return false;
    }
  }
  size_t length = 0;
  while (text->at < text->end && *text->at != quote) {
    if (length + 1 >= out_bytes || *text->at == '\\') {
      return false;
    }
    out[length++] = *text->at++;
  }
  out[length] = '\0';
  return take(text, quote);
}

static bool take_dimension(struct text *text, int64_t *dimension) {
  skip_blanks(text);
  int64_t value = 0;
  const char *start = text->at;
  while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text->at - '0', &value)) {
      return false;
    }
    text->at++;
  }
  bool any = text->at > start;
  if (any && text->at < text->end && *text->at == 'L') {
    text->at++; // Python 2 wrote long integers so
  }
  *dimension = value;
  return any;
}

static bool parse_shape(struct text *text, struct npy_header *header, struct failure *failure) {
  header->rank = 0;
  if (!take(text, '(')) {
    return failure_set(failure, "its header's shape is no tuple");
  }
  while (!take(text, ')')) {
    if (header->rank == ACLNN_RANK_MAX) {
      return failure_set(failure, "it has more than %d dimensions", ACLNN_RANK_MAX);
    }
    if (!take_dimension(text, &header->shape[header->rank])) {
      return failure_set(failure, "its header's shape has a dimension that is no number from 0 to %" PRId64,
                         INT64_MAX);
    }
    header->rank++;
    if (!take(text, ',') && !next_is(text, ')')) {
      return failure_set(failure, "its header's shape is not closed");
    }
  }
  return true;
}

static bool parse_descr(struct text *text, struct npy_header *header, struct failure *failure) {
  char descr[32];
  if (next_is(text, '[')) {
    return failure_set(failure, "its elements are structures; arrays of plain numbers are needed");
  }
  if (!take_string(text, descr, sizeof descr) || descr[0] == '\0') {
    return failure_set(failure, "its header's descr is no type of elements");
  }
  if (descr[0] == '>') {
    return failure_set(failure,
                       "its elements are big-endian ('%s'); save it with a.astype(a.dtype.newbyteorder('<'))",
                       descr);
  }
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT && (descr[0] == '<' || descr[0] == '|'); i++) {
    if (strcmp(descr + 1, ELEMENT_TYPES[i].kind) == 0) {
      header->data_type = ELEMENT_TYPES[i].data_type;
      header->element_bytes = ELEMENT_TYPES[i].bytes;
      return true;
    }
  }
  return failure_set(failure, "elements of type '%s' are not supported", descr);
}

static bool parse_order(struct text *text, struct npy_header *header, struct failure *failure) {
  header->fortran_order = take_word(text, "True");
  if (!header->fortran_order && !take_word(text, "False")) {
    return failure_set(failure, "its header's fortran_order is neither True nor False");
  }
  return true;
}

static const struct field {
  const char *key;
  bool (*parse)(struct text *text, struct npy_header *header, struct failure *failure);
} FIELDS[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])

static bool parse_field(struct text *text, struct npy_header *header, bool seen[FIELD_COUNT],
                        struct failure *failure) {
  char key[32];
  if (!take_string(text, key, sizeof key) || !take(text, ':')) {
    return failure_set(failure, "its header is no dictionary");
  }
  for (size_t i = 0; i < FIELD_COUNT; i++) {
    if (strcmp(key, FIELDS[i].key) == 0) {
      if (seen[i]) {
        return failure_set(failure, "its header has %s twice", key);
      }
      seen[i] = true;
      return FIELDS[i].parse(text, header, failure);
    }
  }
  return failure_set(failure, "its header has an unknown entry '%s'", key);
}

static bool parse_dictionary(struct text *text, struct npy_header *header, struct failure *failure) {
  bool seen[FIELD_COUNT] = {false};
  if (!take(text, '{')) {
    return failure_set(failure, "its header is no dictionary");
  }
  while (!take(text, '}')) {
    if (!parse_field(text, header, seen, failure)) {
      return false;
    }
    if (!take(text, ',') && !next_is(text, '}')) {
      return failure_set(failure, "its header is not closed");
    }
  }
  skip_blanks(text);
  if (text->at != text->end) {
    return failure_set(failure, "its header goes on after its end");
  }
  for (size_t i = 0; i < FIELD_COUNT; i++) {
    if (!seen[i]) {
      return failure_set(failure, "its header has no %s", FIELDS[i].key);
    }
  }
  return true;
}

// ---- The file's beginning

static bool find_dictionary(const uint8_t *bytes, size_t size, struct text *text, struct npy_header *header,
                            struct failure *failure) {
  if (size < sizeof MAGIC + 4 || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
    return failure_set(failure, "it is no .npy file");
  }
  uint8_t major = bytes[6];
  uint8_t minor = bytes[7];
  if (major < 1 || major > 3 || minor != 0) {
    return failure_set(failure, "it has version %u.%u of the .npy format; 1.0 to 3.0 are known", major,
                       minor);
  }
  size_t start = major == 1 ? PREAMBLE_BYTES : PREAMBLE_BYTES + 2;
  if (size < start) {
    return failure_set(failure, "it ends within its header");
  }
  size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
  if (major > 1) {
    length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
  }
  if (length > NPY_HEADER_BYTES_MAX) {
    return failure_set(failure, "its header claims %zu bytes; at most %d are taken", length,
                       NPY_HEADER_BYTES_MAX);
  }
  if (size - start < length) {
    return failure_set(failure, "it ends within its header");
  }
  text->at = (const char *)bytes + start;
  text->end = text->at + length;
  header->data_offset = start + length;
  return true;
}

static bool count_bytes(struct npy_header *header, struct failure *failure) {
  bool empty = false;
  for (size_t i = 0; i < header->rank; i++) {
    empty = empty || header->shape[i] == 0;
  }
  uint64_t bytes = empty ? 0 : header->element_bytes;
  for (size_t i = 0; i < header->rank && !empty; i++) {
    if (__builtin_mul_overflow(bytes, (uint64_t)header->shape[i], &bytes) || bytes > INT64_MAX) {
      return failure_set(failure, "its shape means more bytes than can be counted");
    }
  }
  header->data_bytes = bytes;
  return true;
}

bool npy_parse_header(const uint8_t *bytes, size_t size, struct npy_header *header, struct failure *failure) {
  struct npy_header parsed = {0};
  struct text text;
  if (!find_dictionary(bytes, size, &text, &parsed, failure) || !parse_dictionary(&text, &parsed, failure) ||
      !count_bytes(&parsed, failure)) {
    return false;
  }
  *header = parsed;
  return true;
}

// ---- Reading

static bool read_as(struct npy_header *header, aclnn_data_type as, struct failure *failure) {
  bool may_be_bf16 = header->data_type == ACLNN_UINT16 || header->data_type == ACLNN_UNSPECIFIED;
  if (as == ACLNN_UNSPECIFIED && header->data_type == ACLNN_UNSPECIFIED) {
    return failure_set(failure, "its elements are raw bytes; write bf16:FILE if they are bfloat16");
  }
  if (as == ACLNN_BF16 && may_be_bf16) {
    header->data_type = ACLNN_BF16;
    return true;
  }
  if (as != ACLNN_UNSPECIFIED && as != header->data_type) {
    return failure_set(failure, "its elements are %s, not %s", aclnn_data_type_name(header->data_type),
                       aclnn_data_type_name(as));
  }
  return true;
}

static bool map_file(const char *path, struct npy_array *array, struct failure *failure) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return failure_set(failure, "%s: %s", path, strerror(errno));
  }
  struct stat stat;
  bool ok = false;
  if (fstat(descriptor, &stat) != 0) {
    (void)failure_set(failure, "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(stat.st_mode)) {
    (void)failure_set(failure, "%s: it is no regular file", path);
  } else if (stat.st_size == 0) {
    (void)failure_set(failure, "%s: it is empty", path);
  } else {
    array->_map_bytes = (size_t)stat.st_size;
    array->_map = mmap(NULL, array->_map_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    ok = array->_map != MAP_FAILED;
    if (!ok) {
      (void)failure_set(failure, "%s: it can't be mapped: %s", path, strerror(errno));
    }
  }
  close(descriptor);
  return ok;
}

bool npy_open(const char *path, aclnn_data_type as, struct npy_array *array, struct failure *failure) {
  struct npy_array opened = {0};
  struct failure why;
  if (!map_file(path, &opened, failure)) {
    return false;
  }
  struct npy_header *header = &opened.header;
  bool ok = npy_parse_header(opened._map, opened._map_bytes, header, &why) && read_as(header, as, &why);
  size_t there = opened._map_bytes - header->data_offset;
  if (ok && there != header->data_bytes) {
    ok = failure_set(&why, "its shape means %zu bytes of data, but there are %zu", header->data_bytes, there);
  }
  if (!ok) {
    npy_close(&opened);
    return failure_set(failure, "%s: %s", path, why.text);
  }
  opened.data = (uint8_t *)opened._map + header->data_offset;
  *array = opened;
  return true;
}

void npy_close(struct npy_array *array) {
  if (array->_map != NULL) {
    munmap(array->_map, array->_map_bytes);
  }
  memset(array, 0, sizeof *array);
}

// ---- Writing

static const char *written_kind(aclnn_data_type data_type) {
  if (data_type == ACLNN_BF16) {
    data_type = ACLNN_UINT16;
  }
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++) {
    if (ELEMENT_TYPES[i].data_type == data_type && data_type != ACLNN_UNSPECIFIED) {
      return ELEMENT_TYPES[i].kind;
    }
  }
  return NULL;
}

// Writes "2, 3" and for a single dimension "2,", as a tuple of one has a comma too.
static void format_dimensions(size_t rank, const int64_t *shape, char *out, size_t out_bytes) {
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < rank; i++) {
    const char *after = rank == 1 ? "," : i + 1 < rank ? ", " : "";
    length += (size_t)snprintf(out + length, out_bytes - length, "%" PRId64 "%s", shape[i], after);
    assert(length < out_bytes);
  }
}

size_t npy_format_header(aclnn_data_type data_type, size_t rank, const int64_t *shape,
                         uint8_t out[NPY_WRITTEN_HEADER_BYTES_MAX]) {
  const char *kind = written_kind(data_type);
  assert(rank <= ACLNN_RANK_MAX);
  if (kind == NULL) {
    return 0;
  }
  char dimensions[ACLNN_RANK_MAX * 24];
  char dictionary[sizeof dimensions + 80];
  format_dimensions(rank, shape, dimensions, sizeof dimensions);
  size_t length = (size_t)snprintf(dictionary, sizeof dictionary,
                                   "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }",
                                   kind[1] == '1' ? '|' : '<', kind, dimensions);
  size_t total = (PREAMBLE_BYTES + length + 1 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
  assert(total <= NPY_WRITTEN_HEADER_BYTES_MAX);
  memset(out, ' ', total);
  memcpy(out, MAGIC, sizeof MAGIC);
  out[6] = 1;
  out[7] = 0;
  out[8] = (uint8_t)((total - PREAMBLE_BYTES) & 0xff);
  out[9] = (uint8_t)((total - PREAMBLE_BYTES) >> 8);
  memcpy(out + PREAMBLE_BYTES, dictionary, length);
  out[total - 1] = '\n';
  return total;
}
