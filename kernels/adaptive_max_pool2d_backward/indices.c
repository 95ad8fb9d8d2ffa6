// The check that every index lies in its plane: the first in row-major order that doesn't is named.
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/operator_run.h"

// The view of indices as lines of elements at one stride. Where the view is contiguous the lines are pieces
// of it, however its dims divide it; otherwise they are its rows.
struct index_search {
  const struct operator_run *run;
  const struct plane_view *view;
  const unsigned char *storage;
  enum data_type type;
  int64_t index_bytes;
  const struct backward_kernels *kernels;
  uint64_t limit; // of an index
  bool contiguous;
  int64_t elements;
  int64_t line_elements;
  _Atomic int64_t first_bad; // the smallest position found so far, `elements` for none
};

static inline int64_t index_at(const struct index_search *search, int64_t offset) {
  return search->type == DATA_TYPE_INT64 ? ((const int64_t *)search->storage)[offset]
                                         : ((const int32_t *)search->storage)[offset];
}

// How many elements from `offset` on are legal before the first that isn't, `count` at most.
static int64_t count_legal(const struct index_search *search, int64_t offset, int64_t stride, int64_t count) {
  // Almost always all are; which one isn't is worth a second look.
  if (stride == 1 && search->kernels->are_within(search->storage + offset * search->index_bytes, count, 0,
                                                 (int64_t)search->limit)) {
    return count;
  }
  int64_t legal = 0;
  while (legal < count && (uint64_t)index_at(search, offset + legal * stride) < search->limit) {
    legal++;
  }
  return legal;
}

static void lower_to(_Atomic int64_t *first_bad, int64_t position) {
  int64_t found = atomic_load(first_bad);
  while (position < found && !atomic_compare_exchange_weak(first_bad, &found, position)) {
  }
}

static void search_line(struct index_search *search, int64_t line) {
  const struct plane_view *view = search->view;
  int64_t position = line * search->line_elements;
  int64_t left = search->elements - position;
  int64_t count = left < search->line_elements ? left : search->line_elements;
  int64_t offset = view->storage_offset + position;
  int64_t stride = 1;
  if (!search->contiguous) {
    offset = plane_view_offset(view, line / view->rows) + line % view->rows * view->row_stride;
    stride = view->column_stride;
  }
  for (int64_t begin = 0; begin < count; begin += OPERATOR_RUN_CANCEL_ELEMENTS) {
    if (position + begin >= atomic_load(&search->first_bad) || operator_run_is_cancelled(search->run)) {
      return;
    }
    int64_t rest = count - begin;
    int64_t looked_at = rest < OPERATOR_RUN_CANCEL_ELEMENTS ? rest : OPERATOR_RUN_CANCEL_ELEMENTS;
    int64_t legal = count_legal(search, offset + begin * stride, stride, looked_at);
    if (legal < looked_at) {
      lower_to(&search->first_bad, position + begin + legal);
      return;
    }
  }
}

static void search_lines(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  for (size_t line = begin; line < end; line++) {
    search_line(context, (int64_t)line);
  }
}

bool backward_check_inputs(const struct operator_run *run, struct status *status) {
  if (run->plan->empty) {
    return true;
  }
  const struct backward_plan *plan = backward_plan_of(run->plan);
  const struct tensor_desc *desc = &run->plan->arguments.values[BACKWARD_INDICES].tensor;
  enum data_type value_type = run->plan->arguments.values[BACKWARD_GRAD_INPUT].tensor.data_type;
  struct index_search search = {
      .run = run,
      .view = &plan->indices,
      .storage = run->storages[BACKWARD_INDICES],
      .type = desc->data_type,
      .index_bytes = (int64_t)data_type_bytes(desc->data_type),
      .kernels = backward_kernels_find(run->cpu == NULL ? CPU_PATH_SCALAR : run->cpu->path, value_type,
                                       desc->data_type),
      .limit = (uint64_t)(plan->grad_input.rows * plan->grad_input.columns),
      .contiguous = tensor_desc_is_contiguous(desc),
      .elements = tensor_desc_elements(desc),
      .line_elements = plan->indices.columns,
  };
  search.first_bad = search.elements;
  if (search.contiguous) {
    search.line_elements = OPERATOR_RUN_CANCEL_ELEMENTS;
  }
  size_t lines =
      (size_t)(search.elements / search.line_elements + (search.elements % search.line_elements != 0));
  if (!operator_run_units(run, lines, search.line_elements, search_lines, &search, status)) {
    return false;
  }
  int64_t position = search.first_bad;
  if (position == search.elements) {
    return true;
  }
  int64_t value = index_at(&search, tensor_desc_offset_of(desc, position));
  status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "indices",
              "index %lld at position %lld of indices is outside its plane of self, which has %llu elements",
              (long long)value, (long long)position, (unsigned long long)search.limit);
  status_add_metadata(status, "position", "%lld", (long long)position);
  status_add_metadata(status, "value", "%lld", (long long)value);
  return false;
}
