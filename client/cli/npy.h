// The .npy file format, versions 1.0 to 3.0: headers, reading by mmap, writing.
//
// Taken are little-endian arrays of plain numbers, in C or Fortran order, of exactly the file's length. numpy
// has no bfloat16: such arrays come as uint16 or, from ml_dtypes, as raw two-byte elements ('<V2'), and are
// read as bfloat16 only where the caller says so; they are written as uint16. An open array maps the file,
// which must not be changed meanwhile; npy_close unmaps it. Any thread.
#ifndef ACLNN_CLIENT_CLI_NPY_H
#define ACLNN_CLIENT_CLI_NPY_H

#include "client/c/aclnn_client.h"
#include "client/cli/failure.h"

// No header of a plain array is as long; numpy itself refuses headers above 10,000 bytes.
#define NPY_HEADER_BYTES_MAX 65536

struct npy_header {
  aclnn_data_type data_type; // UNSPECIFIED for raw elements (V)
  size_t element_bytes;
  bool fortran_order;
  size_t rank;
  int64_t shape[ACLNN_RANK_MAX];
  size_t data_offset; // where the data begin in the file
  size_t data_bytes;
};

// Reads the header at the start of `bytes`, of which there may be more.
MUST_CHECK bool npy_parse_header(const uint8_t *bytes, size_t size, struct npy_header *header,
                                 struct failure *failure);

struct npy_array {
  struct npy_header header;
  void *data; // read only
  void *_map;
  size_t _map_bytes;
};

// Maps the file. `as` says how to read its elements (UNSPECIFIED: as the file says); besides the file's own
// type it may be ACLNN_BF16 for uint16 and raw two-byte elements.
MUST_CHECK bool npy_open(const char *path, aclnn_data_type as, struct npy_array *array,
                         struct failure *failure);
void npy_close(struct npy_array *array);

// The header of an array in C order, as version 1.0, padded so that the data are aligned. Returns its length;
// 0 if the format has no such type.
#define NPY_WRITTEN_HEADER_BYTES_MAX 512
size_t npy_format_header(aclnn_data_type data_type, size_t rank, const int64_t *shape,
                         uint8_t out[NPY_WRITTEN_HEADER_BYTES_MAX]);

#endif
