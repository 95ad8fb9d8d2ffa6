// The backward of tensors whose planes lie one after the other, in pieces that stay in a core's cache: whole
// planes where they are small, else bands of rows.
//
// Where windows are small, rows of gradInput are pulled: each vector of positions takes what the indices of
// the few windows over it send there. How many gradients were taken says whether all indices lie in their
// windows. Otherwise indices are checked, zeros written and gradients scattered.
#include "kernels/adaptive_max_pool2d_backward/dense.h"
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/operator_run.h"

#include <stddef.h>
#include <string.h>

#define CACHE_LINE 64
// Of gradInput, that are pulled at once: half of a first cache that isn't large.
#define PULL_ELEMENTS 4096

enum way { WAY_SCATTER, WAY_COPY, WAY_PULL };

struct dense_job {
  const struct operator_run *run;
  const struct backward_plan *plan;
  const struct backward_kernels *kernels;
  const unsigned char *gradients, *indices;
  unsigned char *grad_input;
  int64_t value_bytes, index_bytes;
  int64_t plane_elements, plane_gradients;
  enum way way;
  bool disjoint;      // no two windows share a position
  bool sparse;        // few positions get a gradient
  bool streams;       // gradInput is larger than the caches
  int64_t piece_rows; // of a band, that are scattered at once
  int64_t pull_rows;  // whose gradients fit in the stage
  // By slot: what of its scratch is zeros.
  bool zero_sums[OPERATOR_RUN_SLOTS_MAX], zero_stage[OPERATOR_RUN_SLOTS_MAX];
  _Atomic int64_t taken; // gradients of bands that were pulled or copied
  atomic_bool refused;   // an index is not where it is expected
  struct pull_table table;
};

static float *slot_sums(const struct dense_job *job, size_t slot) {
  return (float *)((unsigned char *)job->run->workspace + (int64_t)slot * backward_slot_bytes(job->plan));
}

static unsigned char *slot_stage(const struct dense_job *job, size_t slot) {
  return (unsigned char *)(slot_sums(job, slot) + job->plan->slot_floats);
}

static bool is_over(const struct dense_job *job) {
  return operator_run_is_cancelled(job->run) || atomic_load_explicit(&job->refused, memory_order_relaxed);
}

static void refuse(struct dense_job *job) {
  atomic_store_explicit(&job->refused, true, memory_order_relaxed);
}

// Scratch like `to` within a cache line.
static unsigned char *like(unsigned char *scratch, const void *to) {
  return scratch + (uintptr_t)to % CACHE_LINE;
}

static void prefetch(const unsigned char *from, int64_t bytes) {
  for (int64_t byte = 0; byte < bytes; byte += CACHE_LINE) {
    __builtin_prefetch(from + byte);
  }
}

// The next pull, of the same size, as far as there are gradients for it. Vectors go down columns, which the
// processor doesn't foresee as it does rows.
static void prefetch_next(const struct dense_job *job, int64_t first_gradient, int64_t gradients,
                          int64_t first_element, int64_t elements) {
  const struct plane_view *grad_output = &job->plan->grad_output;
  if (first_gradient + gradients > grad_output->planes * job->plane_gradients ||
      first_element + elements > grad_output->planes * job->plane_elements) {
    return;
  }
  prefetch(job->indices + first_gradient * job->index_bytes, gradients * job->index_bytes);
  prefetch(job->gradients + first_gradient * job->value_bytes, gradients * job->value_bytes);
  unsigned char *to = job->grad_input + first_element * job->value_bytes;
  for (int64_t byte = 0; byte < elements * job->value_bytes && !job->streams; byte += CACHE_LINE) {
    __builtin_prefetch(to + byte, 1);
  }
}

// Pulls rows of planes; how many gradients were taken.
static int64_t pull_rows(struct dense_job *job, size_t slot, int64_t plane, int64_t planes, int64_t row_begin,
                         int64_t row_end) {
  const struct pull_table *table = &job->table;
  int64_t begin = row_begin * table->output_rows / table->rows;
  int64_t end = (row_end * table->output_rows + table->rows - 1) / table->rows;
  int64_t first = plane * job->plane_gradients + begin * table->output_columns;
  int64_t count = (planes - 1) * job->plane_gradients + (end - begin) * table->output_columns;
  int64_t reached = first + count + table->reach;
  bool within = reached <= job->plan->grad_output.planes * job->plane_gradients;
  const unsigned char *indices = job->indices + first * job->index_bytes;
  const unsigned char *gradients = job->gradients + first * job->value_bytes;
  int32_t *stage = (int32_t *)slot_stage(job, slot);
  float *float_stage = (float *)stage + job->plan->stage_gradients;
  int64_t offset = plane * job->plane_elements + row_begin * table->columns;
  struct backward_pull pull = {
      .table = table,
      .grad_input = job->grad_input + offset * job->value_bytes,
      .gradients = (const float *)gradients,
      .indices = (const int32_t *)indices,
      .planes = planes,
      .row_begin = row_begin,
      .row_end = row_end,
      .output_begin = begin,
      .streams = job->streams && job->value_bytes == sizeof(float) &&
                 table->columns * (int64_t)sizeof(float) % CACHE_LINE == 0 &&
                 (uintptr_t)job->grad_input % CACHE_LINE == 0,
  };
  int64_t elements = planes > 1 ? planes * job->plane_elements : (row_end - row_begin) * table->columns;
  prefetch_next(job, first + count, count, offset + elements, elements);
  job->zero_stage[slot] = false;
  if (job->index_bytes != sizeof(int32_t) || !within) {
    if (!job->kernels->narrow(stage, indices, count)) {
      return 0;
    }
    pull.indices = stage;
  }
  if (job->value_bytes != sizeof(float) || !within) {
    job->kernels->widen(float_stage, gradients, count);
    pull.gradients = float_stage;
  }
  return job->kernels->pull(&pull);
}

// Rows [row_begin, row_end) of one plane in pieces that fit in the stage.
static int64_t pull_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                         int64_t row_end) {
  int64_t taken = 0;
  for (int64_t row = row_begin; row < row_end && !is_over(job); row += job->pull_rows) {
    int64_t end = row_end - row < job->pull_rows ? row_end : row + job->pull_rows;
    taken += pull_rows(job, slot, plane, 1, row, end);
  }
  return taken;
}

static int64_t pull_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  int64_t at_once = BACKWARD_PULL_GRADIENTS / job->plane_gradients;
  if (at_once > 1 && at_once > PULL_ELEMENTS / job->plane_elements) {
    at_once = PULL_ELEMENTS > job->plane_elements ? PULL_ELEMENTS / job->plane_elements : 1;
  }
  int64_t taken = 0;
  for (int64_t done = 0; done < planes; done += at_once) {
    if (at_once == 0) {
      return pull_band(job, slot, plane, 0, job->plan->grad_input.rows);
    }
    int64_t count = planes - done < at_once ? planes - done : at_once;
    taken += pull_rows(job, slot, plane + done, count, 0, job->plan->grad_input.rows);
  }
  return taken;
}

// One plane of 16-bit sums, whose lines begin and end with zeros.
static void sum_plane(struct dense_job *job, size_t slot, struct backward_line line) {
  line.planes = 1;
  if (!job->zero_sums[slot]) {
    memset(line.sums, 0, (size_t)line.owned * sizeof(float));
  }
  job->kernels->add(&line);
  job->zero_sums[slot] = job->sparse;
  if (job->sparse) {
    memset(line.grad_input, 0, (size_t)(line.owned * job->value_bytes));
    job->kernels->round_named(&line);
    job->kernels->zero_named(&line);
  } else {
    job->kernels->round(line.grad_input, line.sums, line.owned);
  }
}

static void scatter_16_bit(struct dense_job *job, size_t slot, struct backward_line line, bool zero) {
  size_t bytes = (size_t)(line.planes * line.owned * job->value_bytes);
  bool few = line.count <= BACKWARD_FEW;
  if (!zero && (job->disjoint || few)) {
    memset(line.grad_input, 0, bytes);
  }
  if (job->disjoint && job->kernels->store(&line)) {
    return;
  }
  if (few && !job->disjoint) {
    job->kernels->store_few(&line);
    return;
  }
  for (int64_t plane = 0; plane < line.planes; plane++) {
    sum_plane(job, slot, line);
    line.gradients = (const unsigned char *)line.gradients + line.count * job->value_bytes;
    line.indices = (const unsigned char *)line.indices + line.count * job->index_bytes;
    line.grad_input = (unsigned char *)line.grad_input + line.owned * job->value_bytes;
  }
}

static void scatter_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  int64_t first = plane * job->plane_gradients;
  struct backward_line line = {
      .gradients = job->gradients + first * job->value_bytes,
      .indices = job->indices + first * job->index_bytes,
      .count = job->plane_gradients,
      .owned = job->plane_elements,
      .planes = planes,
      .sums = slot_sums(job, slot),
  };
  if (!job->kernels->are_within(line.indices, planes * line.count, 0, line.owned)) {
    refuse(job);
    return;
  }
  unsigned char *to = job->grad_input + plane * job->plane_elements * job->value_bytes;
  int64_t bytes = planes * job->plane_elements * job->value_bytes;
  bool is_float = job->value_bytes == sizeof(float);
  bool *zero = is_float ? &job->zero_sums[slot] : &job->zero_stage[slot];
  line.grad_input = to;
  if (job->streams) {
    unsigned char *scratch = is_float ? (unsigned char *)slot_sums(job, slot) : slot_stage(job, slot);
    if (!*zero) {
      memset(scratch, 0, (size_t)(bytes + CACHE_LINE));
    }
    line.grad_input = like(scratch, to);
  } else if (is_float) {
    memset(to, 0, (size_t)bytes);
  }
  if (is_float) {
    line.sums = line.grad_input;
    job->kernels->add(&line);
  } else {
    scatter_16_bit(job, slot, line, job->streams);
  }
  if (job->streams) {
    job->kernels->move(to, line.grad_input, bytes);
    // The last unit has fewer planes than others, which need more zeros.
    *zero = planes == job->plan->unit_planes;
  }
}

static void run_planes(void *context, size_t slot, size_t begin, size_t end) {
  struct dense_job *job = context;
  for (size_t unit = begin; unit < end && !is_over(job); unit++) {
    int64_t plane = (int64_t)unit * job->plan->unit_planes;
    int64_t left = job->plan->grad_input.planes - plane;
    int64_t planes = left < job->plan->unit_planes ? left : job->plan->unit_planes;
    int64_t first = plane * job->plane_gradients;
    if (job->way == WAY_COPY &&
        job->kernels->copy(job->grad_input + plane * job->plane_elements * job->value_bytes,
                           job->gradients + first * job->value_bytes, job->indices + first * job->index_bytes,
                           0, job->plane_elements, planes)) {
      continue;
    }
    if (job->way == WAY_PULL && pull_planes(job, slot, plane, planes) == planes * job->plane_gradients) {
      continue;
    }
    scatter_planes(job, slot, plane, planes);
  }
}

// Lines of a piece of a band: the rows [begin, end) of gradOutput whose windows reach into it.
struct piece {
  struct backward_line line; // of row `begin`
  int64_t begin, end;
};

static struct backward_line line_of_row(const struct dense_job *job, const struct piece *piece, int64_t row) {
  struct backward_line line = piece->line;
  int64_t gradients = (row - piece->begin) * line.count;
  line.gradients = (const unsigned char *)line.gradients + gradients * job->value_bytes;
  line.indices = (const unsigned char *)line.indices + gradients * job->index_bytes;
  return line;
}

// Each index must lie in the rows of its window: then no other row's index is one of this piece.
static bool check_piece(struct dense_job *job, const struct piece *piece) {
  int64_t rows = job->plan->grad_input.rows, columns = job->plan->grad_input.columns;
  int64_t output_rows = job->plan->grad_output.rows;
  for (int64_t row = piece->begin; row < piece->end; row++) {
    struct backward_line line = line_of_row(job, piece, row);
    int64_t lower = pooling_window_begin(row, rows, output_rows) * columns;
    int64_t upper = pooling_window_end(row, rows, output_rows) * columns;
    if (is_over(job)) {
      return false;
    }
    if (!job->kernels->are_within(line.indices, line.count, lower, upper)) {
      refuse(job);
      return false;
    }
  }
  return true;
}

static void each_row(const struct dense_job *job, const struct piece *piece,
                     void (*kernel)(const struct backward_line *line)) {
  for (int64_t row = piece->begin; row < piece->end && !is_over(job); row++) {
    struct backward_line line = line_of_row(job, piece, row);
    kernel(&line);
  }
}

static void scatter_piece_16_bit(struct dense_job *job, size_t slot, const struct piece *piece) {
  size_t bytes = (size_t)(piece->line.owned * job->value_bytes);
  if (job->disjoint || job->sparse) {
    memset(piece->line.grad_input, 0, bytes);
  }
  if (job->disjoint) {
    bool single = true;
    for (int64_t row = piece->begin; row < piece->end && single && !is_over(job); row++) {
      struct backward_line line = line_of_row(job, piece, row);
      single = job->kernels->store_owned(&line);
    }
    if (single) {
      return;
    }
    memset(piece->line.grad_input, 0, bytes);
  }
  if (!job->zero_sums[slot]) {
    memset(piece->line.sums, 0, (size_t)(job->piece_rows * job->plan->grad_input.columns) * sizeof(float));
  }
  each_row(job, piece, job->kernels->add_owned);
  job->zero_sums[slot] = job->sparse;
  if (job->sparse) {
    each_row(job, piece, job->kernels->round_named);
    each_row(job, piece, job->kernels->zero_named);
  } else {
    job->kernels->round(piece->line.grad_input, piece->line.sums, piece->line.owned);
  }
}

static void scatter_piece(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                          int64_t row_end) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  struct piece piece = {
      .begin = pooling_first_output(row_begin, grad_input->rows, grad_output->rows),
      .end = pooling_end_output(row_end - 1, grad_input->rows, grad_output->rows),
  };
  int64_t first = plane * job->plane_gradients + piece.begin * grad_output->columns;
  int64_t offset = plane * job->plane_elements + row_begin * grad_input->columns;
  unsigned char *to = job->grad_input + offset * job->value_bytes;
  piece.line = (struct backward_line){
      .gradients = job->gradients + first * job->value_bytes,
      .indices = job->indices + first * job->index_bytes,
      .count = grad_output->columns,
      .sums = slot_sums(job, slot),
      .grad_input = to,
      .first = row_begin * grad_input->columns,
      .owned = (row_end - row_begin) * grad_input->columns,
      .planes = 1,
  };
  if (!check_piece(job, &piece)) {
    return;
  }
  if (job->value_bytes != sizeof(float)) {
    scatter_piece_16_bit(job, slot, &piece);
    return;
  }
  int64_t bytes = piece.line.owned * job->value_bytes;
  if (!job->streams) {
    piece.line.sums = (float *)to;
    memset(to, 0, (size_t)bytes);
    each_row(job, &piece, job->kernels->add_owned);
    return;
  }
  if (!job->zero_sums[slot]) {
    memset(slot_sums(job, slot), 0,
           (size_t)(job->piece_rows * grad_input->columns) * sizeof(float) + CACHE_LINE);
    job->zero_sums[slot] = true;
  }
  piece.line.sums = (float *)like((unsigned char *)slot_sums(job, slot), to);
  each_row(job, &piece, job->kernels->add_owned);
  job->kernels->move(to, piece.line.sums, bytes);
}

static void run_bands(void *context, size_t slot, size_t begin, size_t end) {
  struct dense_job *job = context;
  const struct backward_plan *plan = job->plan;
  for (size_t unit = begin; unit < end && !is_over(job); unit++) {
    int64_t plane = (int64_t)unit / plan->bands_per_plane;
    int64_t row_begin = (int64_t)unit % plan->bands_per_plane * plan->band_rows;
    int64_t left = plan->grad_input.rows - row_begin;
    int64_t row_end = row_begin + (left < plan->band_rows ? left : plan->band_rows);
    if (job->way == WAY_COPY) {
      int64_t first = row_begin * plan->grad_input.columns;
      int64_t count = (row_end - row_begin) * plan->grad_input.columns;
      int64_t at = plane * job->plane_elements + first;
      bool same =
          job->kernels->copy(job->grad_input + at * job->value_bytes, job->gradients + at * job->value_bytes,
                             job->indices + at * job->index_bytes, first, count, 1);
      atomic_fetch_add(&job->taken, same ? count : 0);
    } else if (job->way == WAY_PULL) {
      atomic_fetch_add(&job->taken, pull_band(job, slot, plane, row_begin, row_end));
    } else {
      for (int64_t row = row_begin; row < row_end && !is_over(job); row += job->piece_rows) {
        scatter_piece(job, slot, plane, row,
                      row_end - row < job->piece_rows ? row_end : row + job->piece_rows);
      }
    }
  }
}

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Pulling takes about three cycles for each vector and window over it, scattering two for each gradient and,
// where sums are kept apart, half of one for each element.
static bool pulling_pays(const struct dense_job *job) {
  const struct pull_table *table = &job->table;
  // The windows of all rows: the rows, and again each that two windows share or that two windows are in.
  int64_t window_rows = table->rows + table->output_rows - greatest_divisor(table->rows, table->output_rows);
  int64_t pulled = 3 * table->slots * window_rows + 2 * table->vectors * table->rows;
  bool apart = job->value_bytes != sizeof(float) && !job->disjoint;
  return pulled < 2 * job->plane_gradients + job->plane_elements / (apart ? 2 : 16);
}

static void choose_way(struct dense_job *job) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  job->way = WAY_SCATTER;
  if (grad_input->rows == grad_output->rows && grad_input->columns == grad_output->columns) {
    job->way = WAY_COPY;
    return;
  }
  job->table.rows = grad_input->rows;
  job->table.columns = grad_input->columns;
  job->table.output_rows = grad_output->rows;
  job->table.output_columns = grad_output->columns;
  // A row's windows are rows / output_rows and one more at most; one more is for where a piece begins.
  int64_t fixed = (grad_output->rows / grad_input->rows + 2) * grad_output->columns;
  if (job->kernels->pull == NULL || fixed > BACKWARD_PULL_GRADIENTS ||
      job->plane_gradients > OPERATOR_RUN_CANCEL_ELEMENTS * INT64_C(16384) ||
      job->plane_elements > INT32_MAX - 2 * job->kernels->pull_lanes ||
      !pull_table_build(&job->table, job->kernels->pull_lanes) || !pulling_pays(job)) {
    return;
  }
  job->way = WAY_PULL;
  int64_t spare = BACKWARD_PULL_GRADIENTS / grad_output->columns - 2;
  job->pull_rows = spare * grad_input->rows / grad_output->rows;
  job->pull_rows = job->pull_rows > 1 ? job->pull_rows : 1;
}

static int64_t choose_piece_rows(const struct dense_job *job) {
  const struct cpu *cpu = job->run->cpu;
  int64_t columns = job->plan->grad_input.columns;
  int64_t elements = (cpu == NULL ? BACKWARD_L2_BYTES_USUAL : cpu->l2_bytes) / 4 / (int64_t)sizeof(float);
  elements = elements < BACKWARD_RANGE_ELEMENTS ? elements : BACKWARD_RANGE_ELEMENTS;
  return elements > columns ? elements / columns : 1;
}

static bool choose_streams(const struct dense_job *job) {
  const struct cpu *cpu = job->run->cpu;
  int64_t bytes = job->plan->grad_input.planes * job->plane_elements * job->value_bytes;
  return bytes > BACKWARD_STREAM_BYTES_MIN && cpu != NULL && bytes > cpu->l3_bytes;
}

bool backward_run_dense(const struct operator_run *run, bool *done, struct status *status) {
  const struct backward_plan *plan = backward_plan_of(run->plan);
  enum data_type value_type = run->plan->arguments.values[BACKWARD_GRAD_INPUT].tensor.data_type;
  enum data_type index_type = run->plan->arguments.values[BACKWARD_INDICES].tensor.data_type;
  struct dense_job job;
  // The table is large and filled only where it is used.
  memset(&job, 0, offsetof(struct dense_job, table));
  job.run = run;
  job.plan = plan;
  job.value_bytes = (int64_t)data_type_bytes(value_type);
  job.index_bytes = (int64_t)data_type_bytes(index_type);
  job.kernels =
      backward_kernels_find(run->cpu == NULL ? CPU_PATH_SCALAR : run->cpu->path, value_type, index_type);
  job.gradients = (const unsigned char *)run->storages[BACKWARD_GRAD_OUTPUT] +
                  plan->grad_output.storage_offset * job.value_bytes;
  job.indices =
      (const unsigned char *)run->storages[BACKWARD_INDICES] + plan->indices.storage_offset * job.index_bytes;
  job.grad_input =
      (unsigned char *)run->storages[BACKWARD_GRAD_INPUT] + plan->grad_input.storage_offset * job.value_bytes;
  job.plane_elements = plan->grad_input.rows * plan->grad_input.columns;
  job.plane_gradients = plan->grad_output.rows * plan->grad_output.columns;
  job.disjoint = plan->grad_input.rows % plan->grad_output.rows == 0 &&
                 plan->grad_input.columns % plan->grad_output.columns == 0;
  job.sparse = job.plane_gradients * 4 <= job.plane_elements;
  job.streams = choose_streams(&job);
  job.piece_rows = choose_piece_rows(&job);
  choose_way(&job);
  int64_t planes = plan->grad_input.planes;
  if (plan->bands_per_plane == 0) {
    int64_t units = (planes + plan->unit_planes - 1) / plan->unit_planes;
    *done =
        operator_run_units(run, (size_t)units, plan->unit_planes * (job.plane_elements + job.plane_gradients),
                           run_planes, &job, status);
  } else {
    *done = operator_run_units(run, (size_t)(planes * plan->bands_per_plane),
                               plan->band_rows * plan->grad_input.columns, run_bands, &job, status);
  }
  if (!*done) {
    return false;
  }
  bool all_taken =
      plan->bands_per_plane == 0 || job.way == WAY_SCATTER || job.taken == planes * job.plane_gradients;
  *done = !job.refused && all_taken;
  return true;
}
