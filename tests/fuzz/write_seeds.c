// Writes the seeds of one fuzz target into a folder, for libFuzzer.
#include "tests/fuzz/seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
  const char *target;
  const char *folder;
  int count;
};

static void save(void *context, const char *target, const uint8_t *data, size_t size) {
  struct output *output = context;
  if (strcmp(target, output->target) != 0) {
    return;
  }
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/seed-%d", output->folder, output->count++);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) {
    (void)fprintf(stderr, "usage: write_seeds TARGET FOLDER\n");
    return 2;
  }
  struct output output = {.target = argv[1], .folder = argv[2]};
  fuzz_seeds_visit(save, &output);
  if (output.count == 0) {
    (void)fprintf(stderr, "write_seeds: no seeds for %s\n", argv[1]);
    return 1;
  }
  return 0;
}
