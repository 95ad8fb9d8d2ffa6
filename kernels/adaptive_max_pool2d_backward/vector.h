// The inner loops of the backward on dense tensors, written once and compiled for each code path of the
// processor. They touch no more than their arguments say, check no more than their names say, and look at
// nobody: which loop a shape gets, and on which thread, is dense.c's business.
//
// Pure functions of memory; any thread may call them.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_H

#include "kernels/cpu.h"
#include "kernels/tensor.h"

#define CACHE_LINE 64

// So few gradients in a plane that it is cheap to look through them again.
#define BACKWARD_FEW 16

// Gradients that go to positions [first, first + owned) of a plane, which `sums` and `grad_input` begin with.
struct backward_line {
  const void *gradients;
  const void *indices;
  int64_t count; // of gradients, in each plane
  float *sums;
  void *grad_input; // of the value's type
  int64_t first;
  int64_t owned;
  // Where all positions are owned: planes one after the other, plane_elements (= owned) apart.
  int64_t planes;
};

// How a vector of positions in a row of gradInput is pulled from a row of gradOutput. Windows that cover the
// vector's positions are taken in slots: in slot k each lane has the k-th window that covers its position.
struct pull_pattern {
  int32_t lanes[16];  // which gradient from the slot's base on; below twice the vector's width
  int32_t active[16]; // -1 where the lane has a k-th window, else 0
  int32_t width;      // how many vectors are permuted; 0: lanes are as they come
};

struct pull_slot {
  int32_t base; // column of gradOutput
  int32_t pattern;
};

// The windows over a row: rows [begin, begin + count) of gradOutput.
struct pull_row {
  int32_t begin, count;
};

// Of so many lanes at least, strips take less time than rows that are held.
#define PULL_STRIPS_LANES 16

#define PULL_ROWS_MAX 8192
#define PULL_SLOTS_MAX 2048
#define PULL_PATTERNS_MAX 64
// Slots of a row that can be held: with wide rows, in a second cache.
#define PULL_HELD_SLOTS 256

struct pull_table {
  int64_t rows, columns;               // of gradInput
  int64_t output_rows, output_columns; // of gradOutput
  int64_t vectors;                     // in a row
  int64_t slots;                       // in a row
  int64_t reach;                       // columns beyond a row of gradOutput that are loaded, though not used
  int64_t slots_alike;                 // of every vector; 0 if they differ
  int32_t width;                       // the largest of all patterns
  // Of width 1 at most, with one or two slots for every vector, and a row of gradOutput serves several rows:
  // pulled by strips of one vector, with what is loaded held for the next row.
  bool strips;
  // Can be pulled by rows too, each one vector after the other, with what all of them load held for the next
  // one: no row has more than one row of windows that the row before it hasn't.
  bool held;
  uint16_t first_slot[PULL_SLOTS_MAX + 1];
  struct pull_slot slot[PULL_SLOTS_MAX];
  struct pull_row row[PULL_ROWS_MAX];
  int64_t pattern_count;
  _Alignas(64) int32_t iota[16];
  _Alignas(64) struct pull_pattern pattern[PULL_PATTERNS_MAX];
};

// Rows [row_begin, row_end) of each of `planes` planes; with more than one plane these are all rows.
struct backward_pull {
  const struct pull_table *table;
  void *grad_input;      // row row_begin of the first plane
  const void *gradients; // row output_begin of the first plane
  const void *indices;
  int64_t planes;
  int64_t row_begin, row_end;
  int64_t output_begin;
  bool streams; // rows are whole cache lines, to be written past the caches
};

// How gradInput is filled where windows are of one size and don't share a position: window_rows x
// window_columns each.
#define EXPAND_VECTORS_MAX 64
#define EXPAND_LANES_MAX 16

struct expand_table {
  int64_t columns, output_columns;
  int64_t window_rows, window_columns;
  int64_t plane_elements, plane_gradients;
  // Planes are one row of vectors, of which so many differ; then everything begins again with that many
  // gradients more. 0: rows of gradInput are whole vectors, and all of them alike.
  int64_t vectors;
  int64_t group_gradients;
  bool half;                        // half as many gradients as a vector has lanes are enough for any
  int32_t last_base;                // the highest
  int32_t base[EXPAND_VECTORS_MAX]; // the first gradient of a vector, in the group
  _Alignas(64) int32_t iota[EXPAND_LANES_MAX];
  int32_t lanes[EXPAND_VECTORS_MAX]
               [EXPAND_LANES_MAX]; // which gradient from the base on; below the vector's width
};

// Rows [row_begin, row_end) of each of `planes` planes; all rows with more than one plane, and where rows
// aren't whole vectors.
struct backward_expand {
  const struct expand_table *table;
  void *grad_input;      // row row_begin of the first plane
  const void *gradients; // of the windows of row_begin
  const void *indices;
  int64_t planes;
  int64_t row_begin, row_end;
  bool streams; // vectors are aligned, to be written past the caches
};

// How gradients are combined that go to the same position. A line is a row of gradOutput or a whole plane,
// whichever the table is for; behind its `count` gradients it is filled up to whole blocks, where anything
// counts as inside.
#define COMBINE_BLOCK 16
#define COMBINE_COUNT_MAX 1024
// Rows of windows end where floats tell positions from each other with some room.
#define COMBINE_WINDOW_MAX (1 << 20)

struct combine_table {
  int64_t columns, output_columns;
  int64_t count, padded;
  float inverse, half; // of columns: 1 / columns, and half of that
  int64_t shortest;    // of all windows' last rows
  // Of each gradient's window: where it begins, its last column and its last row, counted from its first.
  // Lines of one row begin with position 0; the second set of last rows is for windows of one row more.
  _Alignas(64) uint32_t base[COMBINE_COUNT_MAX];
  uint32_t last_column[COMBINE_COUNT_MAX];
  uint32_t last_row[2][COMBINE_COUNT_MAX];
};

// `lines` one after the other. Before them are the gradients of a row and one more, or indices that are none;
// a block's worth behind them is read and written besides.
struct backward_combine {
  const struct combine_table *table;
  const int32_t *indices;
  const float *gradients;
  uint16_t *combined;
  int64_t lines;
  int32_t first; // what the table's positions are counted from
  const uint32_t *last_row;
};

// Combined gradients that go to positions [first, first + owned) of a plane, which grad_input begins with; of
// several planes `owned` apart if all positions are owned.
struct backward_place {
  const int32_t *indices;
  const uint16_t *combined;
  int64_t count; // in each plane
  int64_t planes;
  uint16_t *grad_input;
  int64_t first;
  int64_t owned;
};

struct backward_kernels {
  // True if all indices are in [lower, upper).
  bool (*are_within)(const void *indices, int64_t count, int64_t lower, int64_t upper);
  // Adds gradients to sums, all of whose indices are owned (add) or some (add_owned, one plane).
  void (*add)(const struct backward_line *line);
  void (*add_owned)(const struct backward_line *line);
  // For 16-bit types. Stores gradients in grad_input, which is zeros; false if it isn't right because a
  // position got more than one.
  bool (*store)(const struct backward_line *line);
  bool (*store_owned)(const struct backward_line *line);
  // The same for BACKWARD_FEW gradients in a plane at most, right in any case.
  void (*store_few)(const struct backward_line *line);
  // For 16-bit types: replaces each gradient by the rounded sum of those up to it that go to its position;
  // false if an index is outside its window. Then `place` stores them over zeros, and place_owned those of
  // one plane that are owned.
  bool (*combine)(const struct backward_combine *combine);
  void (*place)(const struct backward_place *place);
  void (*place_owned)(const struct backward_place *place);
  // Rounds the sums that indices name into grad_input; makes these sums zero again. Either may do the same to
  // the first sum, so that nothing is made zero before all has been rounded.
  void (*round_named)(const struct backward_line *line);
  void (*zero_named)(const struct backward_line *line);
  // Rounds `count` sums.
  void (*round)(void *grad_input, const float *sums, int64_t count);
  // Where each index of the planes is its own position: copies the gradients; false if one isn't.
  bool (*copy)(void *grad_input, const void *gradients, const void *indices, int64_t first, int64_t count,
               int64_t planes);
  // Moves bytes to where they aren't read soon, past the caches where it can, and leaves zeros behind. Both
  // lie alike within a cache line.
  void (*move)(void *to, void *from, int64_t bytes);
  // The same, but leaves the bytes as they are.
  void (*stream)(void *to, const void *from, int64_t bytes);
  // Makes zero again what indices name in grad_input, all of which are owned.
  void (*clear)(const struct backward_line *line);
  // What the calling thread wrote past the caches is there for all threads that it tells of it.
  void (*settle)(void);
  // Widens gradients to float; narrows indices to 32 bits, false if one doesn't fit.
  void (*widen)(float *to, const void *gradients, int64_t count);
  bool (*narrow)(int32_t *to, const void *indices, int64_t count);
  // How many gradients were taken: all, if all indices lie in their windows. Legal indices or not, only their
  // own windows are written. Gradients are floats and indices of 32 bits. NULL where it doesn't pay.
  int64_t (*pull)(const struct backward_pull *pull);
  // The same in the order of rows, by a table that can be held, from gradients and indices as they are; 0 if
  // an index isn't legal at all.
  int64_t (*pull_held)(const struct backward_pull *pull);
  // The same; 0 if an index isn't legal at all.
  int64_t (*expand)(const struct backward_expand *expand);
  int32_t pull_lanes;
};

// NULL for a path or types that there are none of.
const struct backward_kernels *backward_kernels_find(enum cpu_path path, enum data_type value_type,
                                                     enum data_type index_type);

// Those of one compilation.
const struct backward_kernels *backward_kernels_scalar(enum data_type value_type, enum data_type index_type);
const struct backward_kernels *backward_kernels_neon(enum data_type value_type, enum data_type index_type);
const struct backward_kernels *backward_kernels_avx2(enum data_type value_type, enum data_type index_type);
const struct backward_kernels *backward_kernels_avx512(enum data_type value_type, enum data_type index_type);

// Fills the table for vectors of that many lanes; false if the shape isn't fit for pulling.
bool pull_table_build(struct pull_table *table, int32_t lanes);

// The same for combining, with lines of whole planes if they may be and have few gradients.
bool combine_table_build(struct combine_table *table, int64_t rows, int64_t output_rows, bool whole_planes);

// The same for windows of one size; the plane is of rows x columns, gradOutput's of output_rows x
// output_columns. Without whole_planes only rows that are whole vectors are fit.
bool expand_table_build(struct expand_table *table, int64_t rows, int64_t output_rows, int32_t lanes,
                        bool whole_planes);

#endif
