#include "server/npu/worker/self_test.h"

#include "server/npu/worker/case_run.h"

#include <inttypes.h>
#include <string.h>

struct tally {
  size_t right, wrong, unjudged, unserved;
};

static void print_head(const struct device *device, const struct acl_library *library, FILE *stream) {
  const struct device_description *description = device_describe(device);
  fprintf(stream, "SoC           %s\n", description->soc_name);
  fprintf(stream, "product       %s\n", npu_product_name(description->product));
  fprintf(stream, "CANN runtime  %s\n", description->cann_version);
  fprintf(stream, "memory        %" PRIu64 " MiB\n", description->memory_bytes >> 20);
  fprintf(stream, "copies        %s\n",
          description->transfer_way == TRANSFER_STAGED ? "through pinned memory" : "direct");
  if (library->missing[0] != '\0') {
    fprintf(stream, "operators     %s\n", library->missing);
  }
}

static const char *expectation(const struct case_result *result, enum npu_product product) {
  if (result->outcome == CASE_NOT_SERVED) {
    return "refused";
  }
  if (result->outcome == CASE_NOT_JUDGED) {
    return "other bits allowed";
  }
  return product == NPU_PRODUCT_EMULATED ? "exact bits" : "the same bits";
}

// Behind the case's name.
static void print_result(const struct case_result *result, enum npu_product product, FILE *stream) {
  char note[64] = "";
  if (result->outcome == CASE_NOT_JUDGED) {
    snprintf(note, sizeof note, " (%s)", result->same_bits ? "same bits" : "other bits");
  }
  fprintf(stream, "%-20s %9.3f ms  %s%s\n", expectation(result, product), (double)result->elapsed_ns / 1e6,
          case_outcome_name(result->outcome), note);
  if (result->outcome == CASE_WRONG || result->outcome == CASE_FAILED) {
    fprintf(stream, "      %s\n", result->status.message);
  }
}

static void count(struct tally *tally, enum case_outcome outcome) {
  switch (outcome) {
  case CASE_RIGHT:
    tally->right++;
    break;
  case CASE_NOT_JUDGED:
    tally->unjudged++;
    break;
  case CASE_NOT_SERVED:
    tally->unserved++;
    break;
  case CASE_WRONG:
  case CASE_FAILED:
    tally->wrong++;
    break;
  }
}

static void run_operator(struct device *device, const struct operator_definition *definition,
                         struct tally *tally, FILE *stream) {
  enum npu_product product = device_describe(device)->product;
  fprintf(stream, "\n%s\n", definition->name);
  for (size_t i = 0; i < definition->npu->case_count && !device_is_lost(device); i++) {
    struct case_result result;
    // Seen wherever it goes, even if this case ends the process.
    fprintf(stream, "  %-40s ", definition->npu->cases[i].name);
    fflush(stream);
    case_run(device, definition, &definition->npu->cases[i], &result);
    print_result(&result, product, stream);
    count(tally, result.outcome);
  }
}

static bool finish(struct device *device, const struct tally *tally, FILE *stream) {
  struct status status;
  fprintf(stream, "\n%zu right, %zu wrong, %zu not judged on this product, %zu not served by it\n",
          tally->right, tally->wrong, tally->unjudged, tally->unserved);
  if (device_is_lost(device)) {
    fprintf(stream, "the device failed: cases after that did not run\n");
    device_abandon(device);
    return false;
  }
  if (!device_close(device, &status)) {
    fprintf(stream, "the device could not be closed: %s\n", status.message);
    return false;
  }
  return tally->wrong == 0;
}

bool self_test(const char *library_file, const char *home, const struct device_settings *settings,
               FILE *stream) {
  struct acl_library library;
  struct device *device;
  struct status status;
  if (!acl_library_open(library_file, home, &library, &status) ||
      !device_open(&library, settings, &device, &status)) {
    fprintf(stream, "device %d cannot be used: %s\n", (int)settings->number, status.message);
    return false;
  }
  struct tally tally = {0};
  print_head(device, &library, stream);
  for (size_t i = 0; i < operator_count(); i++) {
    if ((library.operator_mask >> i & 1) != 0) {
      run_operator(device, operator_at(i), &tally, stream);
    }
  }
  return finish(device, &tally, stream);
}
