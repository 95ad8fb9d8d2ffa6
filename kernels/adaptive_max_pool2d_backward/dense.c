// The backward of tensors whose planes lie one after the other, in pieces that stay in a core's cache: whole
// planes where they are small, else bands of rows.
//
// Where windows are small, gradInput is pulled, in its own order: each vector of positions takes what the
// indices of the few windows over it send there; windows of one size that share no position are expanded,
// with at most one gradient for a position and so nothing to add or round. How many gradients were taken says
// whether all indices lie in their windows. Otherwise indices are checked, zeros written and gradients
// scattered; of 16 bits those that meet are combined before, if all of them lie in their windows.
#include "kernels/adaptive_max_pool2d_backward/dense.h"
#include "kernels/adaptive_max_pool2d_backward/dense_job.h"

#include <stddef.h>
#include <string.h>

// As many times longer are slices of units that are written past the caches.
#define STREAM_SLICE_FACTOR 16

// Rows of `planes` planes from gradients of windows that don't share a position; how many were taken.
static int64_t expand_rows(struct dense_job *job, int64_t plane, int64_t planes, int64_t row_begin,
                           int64_t row_end) {
  const struct expand_table *table = &job->expand;
  int64_t first = plane * job->plane_gradients + row_begin / table->window_rows * table->output_columns;
  int64_t offset = plane * job->plane_elements + row_begin * table->columns;
  unsigned char *to = job->grad_input + offset * job->value_bytes;
  struct backward_expand expand = {
      .table = table,
      .grad_input = to,
      .gradients = job->gradients + first * job->value_bytes,
      .indices = job->indices + first * job->index_bytes,
      .planes = planes,
      .row_begin = row_begin,
      .row_end = row_end,
      .streams = job->streams && (uintptr_t)to % CACHE_LINE == 0,
  };
  return job->kernels->expand(&expand);
}

static void run_planes(void *context, size_t slot, size_t begin, size_t end) {
  struct dense_job *job = context;
  for (size_t unit = begin; unit < end && !dense_is_over(job); unit++) {
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
    if (job->way == WAY_EXPAND &&
        expand_rows(job, plane, planes, 0, job->plan->grad_input.rows) == planes * job->plane_gradients) {
      continue;
    }
    if (job->way == WAY_PULL &&
        dense_pull_planes(job, slot, plane, planes) == planes * job->plane_gradients) {
      continue;
    }
    dense_scatter_planes(job, slot, plane, planes);
  }
  if (job->streams) {
    job->kernels->settle();
  }
}

static void run_bands(void *context, size_t slot, size_t begin, size_t end) {
  struct dense_job *job = context;
  const struct backward_plan *plan = job->plan;
  for (size_t unit = begin; unit < end && !dense_is_over(job); unit++) {
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
    } else if (job->way == WAY_EXPAND) {
      int64_t at_once = 1 + OPERATOR_RUN_CANCEL_ELEMENTS / plan->grad_input.columns;
      for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += at_once) {
        int64_t row_last = row_end - row < at_once ? row_end : row + at_once;
        atomic_fetch_add(&job->taken, expand_rows(job, plane, 1, row, row_last));
      }
    } else if (job->way == WAY_PULL) {
      atomic_fetch_add(&job->taken, dense_pull_band(job, slot, plane, row_begin, row_end));
    } else {
      dense_scatter_band(job, slot, plane, row_begin, row_end);
    }
  }
  if (job->streams) {
    job->kernels->settle();
  }
}

// Cycles for a plane, as least squares over thousands of shapes gave them (within a quarter for most, on each
// path alike): a slot of a row of windows, a vector of gradInput, a gradient that is held.
static int64_t pulling_cycles(const struct dense_job *job, int64_t vectors, int64_t slots) {
  const struct pull_table *table = &job->table;
  int64_t window_rows = pooling_window_count(table->rows, table->output_rows);
  int64_t loads = slots * window_rows, stores = vectors * table->rows;
  if (table->strips) {
    return 3 * loads + 6 * stores + job->plane_gradients / 2;
  }
  return table->width == 2 ? 13 * loads + 7 * stores : 7 * loads + 14 * stores;
}

static int64_t scattering_cycles(const struct dense_job *job) {
  if (job->value_bytes == sizeof(float)) {
    return 3 * job->plane_gradients + 3 * job->plane_elements / 16;
  }
  // Stored one by one, where no two can meet.
  return job->disjoint ? 2 * job->plane_gradients + job->plane_elements / 16
                       : 7 * job->plane_gradients / 2 + job->plane_elements / 4;
}

// Fills the table; false where it takes longer to pull, which most often shows without the table.
static bool choose_pulling(struct dense_job *job) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  struct pull_table *table = &job->table;
  int32_t lanes = job->kernels->pull_lanes;
  // A row's windows are rows / output_rows and one more at most; one more is for where a piece begins.
  int64_t fixed = (grad_output->rows / grad_input->rows + 2) * grad_output->columns;
  if (job->kernels->pull == NULL || fixed > BACKWARD_PULL_GRADIENTS ||
      job->plane_gradients > OPERATOR_RUN_CANCEL_ELEMENTS * INT64_C(16384) ||
      job->plane_elements > INT32_MAX - 2 * lanes) {
    return false;
  }
  table->rows = grad_input->rows;
  table->columns = grad_input->columns;
  table->output_rows = grad_output->rows;
  table->output_columns = grad_output->columns;
  int64_t vectors = (table->columns + lanes - 1) / lanes, scattering = scattering_cycles(job);
  table->strips = true; // at best
  return pulling_cycles(job, vectors, vectors) < scattering && pull_table_build(table, lanes) &&
         pulling_cycles(job, table->vectors, table->slots) < scattering;
}

// Beyond the caches it is the order that counts, as hardware prefetches what is read and written plainly; in
// them there is less to do by strips, unless vectors are so short that setting out on each of them counts.
static bool holding_pays(const struct dense_job *job) {
  const struct cpu *cpu = job->run->cpu;
  int64_t planes = job->plan->grad_input.planes;
  int64_t bytes = planes * (job->plane_elements * job->value_bytes +
                            job->plane_gradients * (job->value_bytes + job->index_bytes));
  bool beyond = cpu != NULL && bytes > cpu->l3_bytes / 3;
  return job->table.held && (beyond || job->kernels->pull_lanes < PULL_STRIPS_LANES);
}

static void choose_way(struct dense_job *job) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  job->way = WAY_SCATTER;
  if (grad_input->rows == grad_output->rows && grad_input->columns == grad_output->columns) {
    job->way = WAY_COPY;
    return;
  }
  job->expand.columns = grad_input->columns;
  job->expand.output_columns = grad_output->columns;
  if (job->kernels->expand != NULL && job->plane_elements <= INT32_MAX - 2 * job->kernels->pull_lanes &&
      expand_table_build(&job->expand, grad_input->rows, grad_output->rows, job->kernels->pull_lanes,
                         job->plan->bands_per_plane == 0)) {
    job->way = WAY_EXPAND;
    return;
  }
  job->combines = dense_can_combine(job);
  if (!choose_pulling(job)) {
    return;
  }
  job->way = WAY_PULL;
  job->holds = holding_pays(job);
  int64_t spare = BACKWARD_PULL_GRADIENTS / grad_output->columns - 2;
  job->pull_rows = spare * grad_input->rows / grad_output->rows;
  int64_t short_rows = DENSE_PULL_ELEMENTS / grad_input->columns;
  short_rows = short_rows > DENSE_PULL_ROWS_MIN ? short_rows : DENSE_PULL_ROWS_MIN;
  job->pull_rows = job->pull_rows < short_rows ? job->pull_rows : short_rows;
  job->pull_rows = job->pull_rows > 1 ? job->pull_rows : 1;
}

static int64_t choose_piece_rows(const struct dense_job *job) {
  const struct cpu *cpu = job->run->cpu;
  int64_t columns = job->plan->grad_input.columns;
  int64_t elements = (cpu == NULL ? BACKWARD_L2_BYTES_USUAL : cpu->l2_bytes) / 4 / (int64_t)sizeof(float);
  elements = elements < BACKWARD_RANGE_ELEMENTS ? elements : BACKWARD_RANGE_ELEMENTS;
  int64_t most = elements > columns ? elements / columns : 1;
  // Pieces of one size: rows of windows that reach beyond a piece are looked at again.
  int64_t pieces = (job->plan->band_rows + most - 1) / most;
  return pieces > 1 ? (job->plan->band_rows + pieces - 1) / pieces : most;
}

static bool choose_streams(const struct dense_job *job) {
  const struct cpu *cpu = job->run->cpu;
  int64_t bytes = job->plan->grad_input.planes * job->plane_elements * job->value_bytes;
  return bytes > BACKWARD_STREAM_BYTES_MIN && cpu != NULL && bytes > cpu->l3_bytes / 3 * 2;
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
  job.few_lines = job.plane_gradients * 2 * CACHE_LINE <= job.plane_elements * job.value_bytes;
  job.streams = choose_streams(&job);
  job.piece_rows = choose_piece_rows(&job);
  choose_way(&job);
  int64_t planes = plan->grad_input.planes;
  if (plan->bands_per_plane == 0) {
    int64_t units = (planes + plan->unit_planes - 1) / plan->unit_planes;
    int64_t unit_elements = plan->unit_planes * (job.plane_elements + job.plane_gradients);
    // Each slice waits for its last stores in the end. Units look at cancellation themselves.
    int64_t shorter = job.streams && unit_elements > STREAM_SLICE_FACTOR ? STREAM_SLICE_FACTOR : 1;
    *done = operator_run_units(run, (size_t)units, unit_elements / shorter, run_planes, &job, status);
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
