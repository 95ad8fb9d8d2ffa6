#include "kernels/half.h"
#include "kernels/mm/plan.h"
#include "kernels/operator_run.h"

#include <cblas.h>

// OpenBLAS packs what it multiplies: smaller tiles pack the same elements more often.
#define TILE_DIM_MAX 1024
#define TILE_DIM_MIN 64
// One call of OpenBLAS can't be cancelled; it goes over at most so many elements of the inner dim.
#define INNER_AT_ONCE 4096
#define ROUND_AT_ONCE 256

struct mm_job {
  const struct operator_run *run;
  const struct mm_plan *plan;
  int64_t tile_rows, tile_columns, tiles_across;
};

// ---- Copies of inputs, as fp32 and without holes

struct copy_job {
  const struct mm_matrix *matrix;
  enum data_type type;
  const void *from;
  float *to;
};

static void copy_line(const struct copy_job *job, int64_t line) {
  const struct mm_matrix *matrix = job->matrix;
  int64_t first = matrix->offset + line * matrix->line_stride;
  int64_t stride = matrix->element_stride;
  float *to = job->to + line * matrix->length;
  if (job->type == DATA_TYPE_FLOAT) {
    const float *from = (const float *)job->from + first;
    for (int64_t i = 0; i < matrix->length; i++) {
      to[i] = from[i * stride];
    }
    return;
  }
  const uint16_t *from = (const uint16_t *)job->from + first;
  if (job->type == DATA_TYPE_BF16) {
    for (int64_t i = 0; i < matrix->length; i++) {
      to[i] = bf16_to_float(from[i * stride]);
    }
    return;
  }
  if (stride == 1) {
    fp16_to_floats(to, from, (size_t)matrix->length);
    return;
  }
  for (int64_t i = 0; i < matrix->length; i++) {
    to[i] = fp16_to_float(from[i * stride]);
  }
}

static void copy_lines(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  for (size_t line = begin; line < end; line++) {
    copy_line(context, (int64_t)line);
  }
}

static bool copy_input(const struct operator_run *run, size_t parameter, const struct mm_matrix *matrix,
                       struct status *status) {
  if (matrix->direct) {
    return true;
  }
  struct copy_job job = {
      .matrix = matrix,
      .type = run->plan->arguments.values[parameter].tensor.data_type,
      .from = run->storages[parameter],
      .to = (float *)((char *)run->workspace + matrix->workspace_byte),
  };
  return operator_run_units(run, (size_t)matrix->lines, matrix->length, copy_lines, &job, status);
}

// ---- Tiles of the product

struct placed {
  float *first;
  int64_t leading; // elements from one line to the next
};

// Where the fp32 elements of a matrix are, directly or copied.
static struct placed place(const struct operator_run *run, size_t parameter, const struct mm_matrix *matrix) {
  if (matrix->direct) {
    return (struct placed){(float *)run->storages[parameter] + matrix->offset, matrix->line_stride};
  }
  return (struct placed){(float *)((char *)run->workspace + matrix->workspace_byte), matrix->length};
}

static float *element(const struct placed *placed, const struct mm_matrix *matrix, int64_t row,
                      int64_t column) {
  return placed->first +
         (matrix->transposed ? column * placed->leading + row : row * placed->leading + column);
}

static enum CBLAS_TRANSPOSE transposition(const struct mm_matrix *matrix) {
  return matrix->transposed ? CblasTrans : CblasNoTrans;
}

// Rounds sums into the elements of out.
static void store_line(const struct mm_job *job, const float *sums, int64_t row, int64_t column,
                       int64_t count) {
  const struct mm_matrix *out = &job->plan->out;
  enum data_type type = job->run->plan->arguments.values[MM_OUT].tensor.data_type;
  int64_t stride = out->element_stride;
  int64_t first = out->offset + row * out->line_stride + column * stride;
  if (type == DATA_TYPE_FLOAT) {
    float *to = (float *)job->run->storages[MM_OUT] + first;
    for (int64_t i = 0; i < count; i++) {
      to[i * stride] = sums[i];
    }
    return;
  }
  void (*round)(uint16_t *, const float *, size_t) =
      type == DATA_TYPE_BF16 ? bf16_from_floats : fp16_from_floats;
  uint16_t *to = (uint16_t *)job->run->storages[MM_OUT] + first;
  if (stride == 1) {
    round(to, sums, (size_t)count);
    return;
  }
  uint16_t rounded[ROUND_AT_ONCE];
  for (int64_t begin = 0; begin < count; begin += ROUND_AT_ONCE) {
    int64_t part = count - begin < ROUND_AT_ONCE ? count - begin : ROUND_AT_ONCE;
    round(rounded, sums + begin, (size_t)part);
    for (int64_t i = 0; i < part; i++) {
      to[(begin + i) * stride] = rounded[i];
    }
  }
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void compute_tile(const struct mm_job *job, int64_t tile) {
  const struct mm_plan *plan = job->plan;
  struct placed self = place(job->run, MM_SELF, &plan->self);
  struct placed mat2 = place(job->run, MM_MAT2, &plan->mat2);
  struct placed out = place(job->run, MM_OUT, &plan->out);
  int64_t row = tile / job->tiles_across * job->tile_rows;
  int64_t column = tile % job->tiles_across * job->tile_columns;
  int64_t rows = least(job->tile_rows, plan->rows - row);
  int64_t columns = least(job->tile_columns, plan->columns - column);
  float *sums = element(&out, &plan->out, row, column);
  for (int64_t begin = 0; begin < plan->inner; begin += INNER_AT_ONCE) {
    if (operator_run_is_cancelled(job->run)) {
      return;
    }
    cblas_sgemm(CblasRowMajor, transposition(&plan->self), transposition(&plan->mat2), (blasint)rows,
                (blasint)columns, (blasint)least(INNER_AT_ONCE, plan->inner - begin), 1.0f,
                element(&self, &plan->self, row, begin), (blasint)self.leading,
                element(&mat2, &plan->mat2, begin, column), (blasint)mat2.leading, begin == 0 ? 0.0f : 1.0f,
                sums, (blasint)out.leading);
  }
  for (int64_t i = 0; i < rows && !plan->out.direct; i++) {
    store_line(job, sums + i * out.leading, row + i, column, columns);
  }
}

static void compute_tiles(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  for (size_t tile = begin; tile < end; tile++) {
    compute_tile(context, (int64_t)tile);
  }
}

static int64_t parts(int64_t total, int64_t part) {
  return total / part + (total % part != 0);
}

// As large as makes sense, but at least one tile for each thread.
static void choose_tiles(struct mm_job *job, size_t threads) {
  int64_t rows = least(TILE_DIM_MAX, job->plan->rows);
  int64_t columns = least(TILE_DIM_MAX, job->plan->columns);
  while ((size_t)parts(job->plan->rows, rows) * (size_t)parts(job->plan->columns, columns) < threads) {
    int64_t *larger = rows >= columns ? &rows : &columns;
    if (*larger < 2 * TILE_DIM_MIN) {
      break;
    }
    *larger = parts(*larger, 2);
  }
  job->tile_rows = rows;
  job->tile_columns = columns;
  job->tiles_across = parts(job->plan->columns, columns);
}

bool mm_run(const struct operator_run *run, struct status *status) {
  const struct mm_plan *plan = mm_plan_of(run->plan);
  if (run->plan->empty) {
    return operator_run_zero(run, MM_OUT, status);
  }
  // The threads are ours: each call of OpenBLAS shall do its work on the thread that makes it. The setting is
  // the process's, and never another.
  if (openblas_get_num_threads() != 1) {
    openblas_set_num_threads(1);
  }
  if (!operator_run_zero_holes(run, MM_OUT, status) || !copy_input(run, MM_SELF, &plan->self, status) ||
      !copy_input(run, MM_MAT2, &plan->mat2, status)) {
    return false;
  }
  struct mm_job job = {.run = run, .plan = plan};
  choose_tiles(&job, parallel_threads(run->parallel));
  int64_t tiles = parts(plan->rows, job.tile_rows) * job.tiles_across;
  return operator_run_units(run, (size_t)tiles, job.tile_rows * job.tile_columns, compute_tiles, &job,
                            status);
}
