#include "server/npu/pool/device_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A binding that refuses plans of more than 100 elements on A2 and vouches for even ones on the 950.
static bool check_plan(const struct plan *plan, enum npu_product product, struct status *status) {
  return product != NPU_PRODUCT_A2 || plan->work_elements <= 100 ||
         status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "self", "too many");
}

static bool is_exact(const struct plan *plan, enum npu_product product) {
  return product == NPU_PRODUCT_EMULATED || (product == NPU_PRODUCT_950 && plan->work_elements % 2 == 0);
}

static const struct npu_binding binding = {
    .products = 1u << NPU_PRODUCT_A2 | 1u << NPU_PRODUCT_950 | 1u << NPU_PRODUCT_EMULATED,
    .check_plan = check_plan,
    .is_exact = is_exact,
};
static const struct operator_definition on_devices = {.name = "onDevices", .npu = &binding};
static const struct operator_definition on_the_host = {.name = "onTheHost"};
static const struct operator_definition missing = {.name = "missing", .npu = &binding};

// The registry of this test.
size_t operator_count(void) {
  return 3;
}

const struct operator_definition *operator_at(size_t position) {
  static const struct operator_definition *const operators[] = {&missing, &on_the_host, &on_devices};
  return operators[position];
}

static const struct device_offer a2 = {.product = NPU_PRODUCT_A2, .operators = 1u << 2 | 1u << 1};
static const struct device_offer a3 = {.product = NPU_PRODUCT_A3, .operators = 1u << 2};
static const struct device_offer a950 = {
    .product = NPU_PRODUCT_950, .operators = 1u << 2, .deterministic = true};
static const struct device_offer emulated = {.product = NPU_PRODUCT_EMULATED, .operators = 1u << 2};

static struct plan some_plan(enum numerics numerics, uint64_t work_elements) {
  return (struct plan){.definition = &on_devices, .numerics = numerics, .work_elements = work_elements};
}

static void expect_served(const struct device_offer *offer, enum numerics numerics, uint64_t work_elements) {
  struct plan plan = some_plan(numerics, work_elements);
  struct status status;
  assert_true(device_offer_serves(offer, &plan, &status));
}

static void expect_refused(const struct device_offer *offer, const struct plan *plan, enum reason reason,
                           const char *says) {
  struct status status;
  assert_false(device_offer_serves(offer, plan, &status));
  assert_int_equal(status.reason, reason);
  assert_non_null(strstr(status.message, says));
}

static void a_device_serves_what_it_has(void **unused) {
  (void)unused;
  expect_served(&a2, NUMERICS_DEVICE, 100);
  expect_served(&a950, NUMERICS_DEVICE, 1000);
  expect_served(&emulated, NUMERICS_DEVICE, 7);
  struct plan plan = some_plan(NUMERICS_DEVICE, 1);
  plan.definition = &missing;
  expect_refused(&a2, &plan, REASON_TARGET_UNAVAILABLE, "has no missing");
  plan.definition = &on_the_host;
  expect_refused(&a2, &plan, REASON_TARGET_UNAVAILABLE, "onTheHost does not run");
}

static void products_without_the_operator_refuse(void **unused) {
  (void)unused;
  struct plan plan = some_plan(NUMERICS_DEVICE, 1);
  expect_refused(&a3, &plan, REASON_TARGET_UNAVAILABLE, "product A3");
  struct device_offer unknown = {.product = NPU_PRODUCT_UNKNOWN, .operators = UINT32_MAX};
  expect_refused(&unknown, &plan, REASON_TARGET_UNAVAILABLE, "product unknown");
}

static void documented_limits_are_the_callers_fault(void **unused) {
  (void)unused;
  struct plan plan = some_plan(NUMERICS_DEVICE, 101);
  expect_refused(&a2, &plan, REASON_ACLNN_ERR_PARAM_INVALID, "too many");
  expect_served(&a950, NUMERICS_DEVICE, 101);
}

static void exact_needs_a_binding_that_vouches(void **unused) {
  (void)unused;
  expect_served(&emulated, NUMERICS_EXACT, 7);
  expect_served(&a950, NUMERICS_EXACT, 8);
  struct plan plan = some_plan(NUMERICS_EXACT, 7);
  expect_refused(&a950, &plan, REASON_TARGET_UNAVAILABLE, "EXACT");
  expect_refused(&a2, &plan, REASON_TARGET_UNAVAILABLE, "A2");
}

static void deterministic_needs_a_device_in_that_mode(void **unused) {
  (void)unused;
  expect_served(&a950, NUMERICS_DETERMINISTIC, 7);
  struct plan plan = some_plan(NUMERICS_DETERMINISTIC, 7);
  expect_refused(&a2, &plan, REASON_TARGET_UNAVAILABLE, "deterministic");
  expect_refused(&emulated, &plan, REASON_TARGET_UNAVAILABLE, "deterministic");
}

static void only_the_emulated_device_is_always_exact(void **unused) {
  (void)unused;
  assert_int_equal(device_offer_numerics(&a2), 1u << NUMERICS_DEVICE);
  assert_int_equal(device_offer_numerics(&a950), 1u << NUMERICS_DEVICE | 1u << NUMERICS_DETERMINISTIC);
  assert_int_equal(device_offer_numerics(&emulated), 1u << NUMERICS_DEVICE | 1u << NUMERICS_EXACT);
  struct device_offer unknown = {.product = NPU_PRODUCT_UNKNOWN, .deterministic = true};
  assert_int_equal(device_offer_numerics(&unknown), 0);
}

static void the_least_loaded_device_is_first(void **unused) {
  (void)unused;
  // From the least to the most.
  static const struct device_load loads[] = {{0, 0, 3},  {0, 0, 4},  {1, 10, 1},
                                             {1, 10, 2}, {1, 11, 0}, {2, 2, 0}};
  size_t count = sizeof loads / sizeof loads[0];
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < count; j++) {
      assert_int_equal(device_load_is_less(&loads[i], &loads[j]), i < j);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_serves_what_it_has),
      cmocka_unit_test(products_without_the_operator_refuse),
      cmocka_unit_test(documented_limits_are_the_callers_fault),
      cmocka_unit_test(exact_needs_a_binding_that_vouches),
      cmocka_unit_test(deterministic_needs_a_device_in_that_mode),
      cmocka_unit_test(only_the_emulated_device_is_always_exact),
      cmocka_unit_test(the_least_loaded_device_is_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
