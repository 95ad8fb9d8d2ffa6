// Geometry of adaptive pooling over the planes of [N, ]C, H, W tensors: planes, windows, and the checks that
// the forward and the backward operator share. Pure functions, usable from any thread.
#ifndef ACLNN_KERNELS_ADAPTIVE_POOLING_H
#define ACLNN_KERNELS_ADAPTIVE_POOLING_H

#include "kernels/operator_checks.h"
#include "kernels/tensor.h"

// Positions in a plane are kept in 32 bits by devices, and by int32 indices.
#define ADAPTIVE_POOLING_PLANE_ELEMENTS_MAX INT64_C(2147483647)

#define ADAPTIVE_POOLING_DATA_TYPES (DATA_TYPE_BIT(FLOAT) | DATA_TYPE_BIT(FLOAT16) | DATA_TYPE_BIT(BF16))
#define ADAPTIVE_POOLING_INDEX_TYPES (DATA_TYPE_BIT(INT32) | DATA_TYPE_BIT(INT64))
#define ADAPTIVE_POOLING_RANKS (RANK_BIT(3) | RANK_BIT(4))

// A tensor as planes of rows and columns; offsets and strides in elements of its storage.
struct plane_view {
  int64_t planes;
  int64_t channels;
  int64_t rows;
  int64_t columns;
  int64_t storage_offset;
  int64_t batch_stride;
  int64_t channel_stride;
  int64_t row_stride;
  int64_t column_stride;
};

// Of a normalised tensor of rank 3 or 4.
struct plane_view plane_view_of(const struct tensor_desc *desc);

// Where plane number `plane` begins.
static inline int64_t plane_view_offset(const struct plane_view *view, int64_t plane) {
  return view->storage_offset + plane / view->channels * view->batch_stride +
         plane % view->channels * view->channel_stride;
}

// True if the elements of each plane lie one after the other.
static inline bool plane_view_is_dense(const struct plane_view *view) {
  return view->column_stride == 1 && view->row_stride == view->columns;
}

// The window of output m on an axis with `input` positions and `output` results, both above 0, is
// [begin, end): from floor(m * input / output) to ceil((m + 1) * input / output). The products are formed in
// 128 bits.
int64_t pooling_window_begin(int64_t m, int64_t input, int64_t output);
int64_t pooling_window_end(int64_t m, int64_t input, int64_t output);

// The first output whose window reaches input position `position` or beyond, and the end of those whose
// window begins at it or before.
int64_t pooling_first_output(int64_t position, int64_t input, int64_t output);
int64_t pooling_end_output(int64_t position, int64_t input, int64_t output);

// The most elements that a window has of an axis. With the two exchanged, the most windows over an element.
int64_t pooling_largest_window(int64_t input, int64_t output);
// How many pairs of an element and a window over it an axis has.
int64_t pooling_window_count(int64_t input, int64_t output);

// Refuses planes of more than ADAPTIVE_POOLING_PLANE_ELEMENTS_MAX elements.
MUST_CHECK bool pooling_check_plane_size(struct named_tensor tensor, struct status *status);

// a * b, or UINT64_MAX where that is too large: for estimates of work.
uint64_t pooling_saturating_product(uint64_t a, uint64_t b);

// Of two numbers above 0.
int64_t pooling_greatest_divisor(int64_t a, int64_t b);

#endif
