// The forward's inner loops, compiled for each vector path of the processor and each size of elements. All
// are pure functions of their arguments, usable from any thread, and give the same results on each path.
//
// Where the maxima of vectors of columns meet, an element is a "candidate" of 64 bits: its value as a number
// that orders like it (both zeros are one), below that its position in the plane, inverted, and then which of
// the zeros it is. The larger of two candidates is then the better one, the first of equals. NaN are only
// noticed: rows that have one are left to the plain code.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_PATH_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_PATH_H

#include <stdbool.h>
#include <stdint.h>

// Of the widest path.
#define FORWARD_LANES_MAX 32
#define FORWARD_WORDS_MAX 16
// Elements of the longest run that pool_short_runs takes: as a mask has bits, with 32 bytes at least a
// vector.
#define FORWARD_SHORT_RUN 64
// Positions within what one call looks at are counted in as many: in lanes of 16 bits.
#define FORWARD_PIECE_ELEMENTS 65536
// Of a row of squares, for the same reason.
#define FORWARD_SQUARES_COLUMNS_MAX 32768
// Of all strips of one call together.
#define FORWARD_STRIPS_COLUMNS_MAX 4096
#define FORWARD_STRIPS_OUTPUTS_MAX 512

struct forward_elements {
  const void *storage;
  int64_t count;    // in the whole storage: nothing is read beyond
  int32_t infinity; // elements of 16 bits have theirs in the upper half
};

// Rows of a plane.
struct forward_piece {
  int64_t offset; // of the first element in its storage
  int64_t rows;
  int64_t columns;
  int64_t row_stride;
  int32_t position;      // of the first element in its plane
  int32_t row_positions; // from a row to the next
  int64_t rows_ahead;    // for which memory is asked
};

// Windows that are runs of elements, one after the other and equally long.
struct forward_runs {
  int64_t offset; // of the first in the storage
  int64_t length;
  int64_t runs;
  int32_t position;      // of the first in its plane
  int32_t last_position; // of the last run of a plane
};

// Windows in rows of candidates; all rows have the same.
struct forward_windows {
  const int32_t *begins;
  const int32_t *widths;
  int64_t count; // of a row
  int64_t rows;
  int64_t pitch; // candidates from row to row
};

// Pairs of rows, one after the other over all planes, that make a row of outputs each: of windows of two rows
// and columns without overlap.
struct forward_squares {
  int64_t offset; // of the first row
  int64_t columns;
  int64_t row_pairs;
  int32_t position; // of the first row in its plane
  int32_t plane;    // where positions begin again with 0
};

// How outputs of windows of at most two rows and columns are picked from two vectors of columns, for each
// vector of outputs.
struct forward_pairs {
  const int32_t *first;  // lanes of the two vectors, for each output
  const int32_t *second; // the same if the window has one column
  const int32_t *begins; // column of the first vector's first lane, for each vector of outputs
  int64_t outputs;
  int64_t row_outputs; // from a row of outputs to the next
  int64_t row_room;    // how much less room the next row has
  bool two_rows;       // a vector holds a row of input and two of outputs; the lanes of the second follow
};

// One or two rows of input that make a row of outputs.
struct forward_row_pair {
  int64_t offsets[2];
  int32_t positions[2];
};

// Rows whose windows make a row of outputs, with FORWARD_PIECE_ELEMENTS positions at most.
struct forward_strip {
  int64_t offset; // of the first element in its storage
  int64_t rows;
  int32_t position; // of the first element in its plane
};

// Strips that have their windows' columns in common.
struct forward_strips {
  const struct forward_strip *strips;
  int64_t count;
  int64_t columns;
  int64_t row_stride;
  int64_t pitch;         // candidates from strip to strip
  int64_t rows_ahead;    // for which memory is asked at least: two strips if that is more
  bool noted_each;       // NaN that the processor notes are told of each strip, which takes time
  int32_t row_positions; // from a row to the next
  int32_t widest;        // window
  const int32_t *begins;
  const int32_t *widths;
  int64_t windows; // of a strip
};

struct forward_results {
  void *values;
  void *indices;
  bool wide_indices;
  int64_t room; // that may be written from there on, with anything beyond the results
};

struct forward_vector_path {
  int64_t lanes;      // elements of a vector
  int64_t words;      // lanes of 32 bits
  int64_t wide_lanes; // of 64 bits
  // Whether the processor has noted a NaN on this thread since it was asked last. Only what reduce_rows and
  // pool_strips have compared is of interest: asked for before and after them.
  bool (*noted_nan)(void);
  // The best candidate of each column. `merge` lets the candidates that are there compete. True if a NaN was
  // among what was read, and not noted by the processor. There is room for `lanes` candidates at least.
  bool (*reduce_rows)(const struct forward_elements *elements, const struct forward_piece *piece, bool merge,
                      int64_t *candidates);
  // The same with runs, which become wide_lanes candidates each; with_nan tells of each.
  bool (*reduce_runs)(const struct forward_elements *elements, const struct forward_runs *runs, bool merge,
                      bool *with_nan, int64_t *candidates);
  // The same for short runs, up to the results; with_nan may be true for neighbours of those that have one.
  // True if it is for any.
  bool (*pool_short_runs)(const struct forward_elements *elements, const struct forward_runs *runs,
                          bool *with_nan, const struct forward_results *results);
  // The best in each window. Reads up to a vector beyond the last.
  void (*reduce_windows)(const struct forward_windows *windows, const int64_t *candidates,
                         const struct forward_results *results);
  // A row of outputs of each strip, at most 64. A bit for each with a NaN among its input, except that the
  // processor's notes are only looked at if it's wanted.
  uint64_t (*pool_strips)(const struct forward_elements *elements, const struct forward_strips *strips,
                          const struct forward_results *results);
  // Rows of outputs, at most 64. A bit for each with a NaN among its input (or among its neighbour's).
  uint64_t (*pool_pairs)(const struct forward_elements *elements, const struct forward_pairs *pairs,
                         const struct forward_row_pair *rows, int64_t count,
                         const struct forward_results *results);
  // Tells how many pairs of rows it has done: all but a few that lie near the end of the storage or of the
  // room. with_nan: whether there is a NaN among them.
  int64_t (*pool_squares)(const struct forward_elements *elements, const struct forward_squares *squares,
                          const struct forward_results *results, bool *with_nan);
  // Copies, with positions from `position` on, which begin again with 0 at `plane`.
  void (*copy_with_positions)(const struct forward_elements *elements, int64_t offset, int64_t count,
                              int32_t position, int32_t plane, const struct forward_results *results);
};

#if defined(__x86_64__)
// The number is the bits of an element.
extern const struct forward_vector_path forward_vector_avx2_32;
extern const struct forward_vector_path forward_vector_avx2_16;
extern const struct forward_vector_path forward_vector_avx512_32;
extern const struct forward_vector_path forward_vector_avx512_16;
#elif defined(__aarch64__)
extern const struct forward_vector_path forward_vector_neon_32;
extern const struct forward_vector_path forward_vector_neon_16;
#endif

#endif
