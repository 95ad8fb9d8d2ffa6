// Pools a 4x4 image to 2x2 and asks for the gradient: aclnnAdaptiveMaxPool2d, then its backward.
#include "client/c/aclnn_client.h"

#include <stdio.h>

static int fail(const char *what, const aclnn_error *error) {
  fprintf(stderr, "%s: %s (%d): %s\n", what, error->reason, error->aclnn_status, error->message);
  return 1;
}

int main(int count, char **arguments) {
  const char *address = count > 1 ? arguments[1] : "127.0.0.1:50051";
  aclnn_client_options options = {.target_address = address, .timeout_ms = 10000};
  aclnn_client *client;
  aclnn_error error;
  if (aclnn_client_open(&options, &client, &error) != ACLNN_OK) {
    return fail("open", &error);
  }

  float image[16] = {1, 5, 2, 0, 3, 4, 8, 1, 9, 0, 6, 2, 7, 1, 3, 4};
  float pooled[4];
  int64_t indices[4];
  int64_t output_size[2] = {2, 2};
  aclnn_tensor forward[] = {
      {"self", false, ACLNN_FLOAT, 4, {1, 1, 4, 4}, .data = image, .data_bytes = sizeof image},
      {"outputOut", true, ACLNN_FLOAT, 4, {1, 1, 2, 2}, .data = pooled, .data_bytes = sizeof pooled},
      {"indicesOut", true, ACLNN_INT64, 4, {1, 1, 2, 2}, .data = indices, .data_bytes = sizeof indices},
  };
  aclnn_attribute size = {"outputSize", ACLNN_INT_ARRAY, .values = output_size, .value_count = 2};
  aclnn_call_arguments pool = {"aclnnAdaptiveMaxPool2d", forward, 3, &size, 1};
  int failed = aclnn_call(client, &pool, NULL, &error) != ACLNN_OK && fail("forward", &error);

  float upstream[4] = {1, 2, 3, 4}; // the gradient of what came out of the pooling
  aclnn_tensor backward[] = {
      {"gradOutput", false, ACLNN_FLOAT, 4, {1, 1, 2, 2}, .data = upstream, .data_bytes = sizeof upstream},
      {"self", false, ACLNN_FLOAT, 4, {1, 1, 4, 4}}, // only its shape is read: no data travel
      {"indices", false, ACLNN_INT64, 4, {1, 1, 2, 2}, .data = indices, .data_bytes = sizeof indices},
      {"gradInput", true}, // shape and memory are left to the library
  };
  aclnn_call_arguments gradient = {"aclnnAdaptiveMaxPool2dBackward", backward, 4, NULL, 0};
  failed = failed || (aclnn_call(client, &gradient, NULL, &error) != ACLNN_OK && fail("backward", &error));

  const float *grad_input = backward[3].data;
  for (int i = 0; !failed && i < 16; i++) {
    printf("%4.0f%s", (double)grad_input[i], i % 4 == 3 ? "\n" : "");
  }
  aclnn_free(backward[3].data);
  aclnn_client_close(client);
  return failed;
}
