#include "server/npu/acl/acl_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// Of each group the first that is found is opened, in this order: the later ones take symbols from the
// earlier ones.
#define GROUP_CHOICES_MAX 2
static const char *const groups[][GROUP_CHOICES_MAX] = {
    {"libascendcl.so", "libacl_rt.so"},
    {"libnnopbase.so", NULL},
    {"libopapi_nn.so", "libopapi.so"}, // from CANN 8.5 on by operator families, before in one
};
#define GROUPS (sizeof groups / sizeof groups[0])

// Where packages of CANN install themselves, newest first.
static const char *const install_folders[] = {
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
};

#define PATH_BYTES 1024

struct handles {
  void *handles[GROUPS];
  size_t count;
};

// dlerror() where opening failed though the file is there is the thing to know, so it is kept.
static void *open_library(const char *path, char *error, size_t error_bytes) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (handle == NULL) {
    snprintf(error, error_bytes, "%s", dlerror());
  }
  return handle;
}

static void *open_below(const char *folder, const char *name, char *error, size_t error_bytes) {
  char path[PATH_BYTES];
  if (folder == NULL || folder[0] == '\0' ||
      snprintf(path, sizeof path, "%s/lib64/%s", folder, name) >= (int)sizeof path) {
    return NULL;
  }
  char missing[512];
  void *handle = open_library(path, missing, sizeof missing);
  // A file that isn't there says less than one that can't be opened.
  if (handle == NULL && strstr(missing, "No such file") == NULL) {
    snprintf(error, error_bytes, "%s", missing);
  }
  return handle;
}

static void *open_anywhere(const char *name, const char *home, char *error, size_t error_bytes) {
  void *handle = open_library(name, error, error_bytes);
  if (handle == NULL) {
    handle = open_below(home, name, error, error_bytes);
  }
  for (size_t i = 0; handle == NULL && i < sizeof install_folders / sizeof install_folders[0]; i++) {
    handle = open_below(install_folders[i], name, error, error_bytes);
  }
  return handle;
}

static bool open_group(const char *const choices[GROUP_CHOICES_MAX], const char *home,
                       struct handles *handles, struct status *status) {
  char first_error[512] = "", error[512];
  for (size_t i = 0; i < GROUP_CHOICES_MAX && choices[i] != NULL; i++) {
    void *handle = open_anywhere(choices[i], home, error, sizeof error);
    if (handle != NULL) {
      handles->handles[handles->count++] = handle;
      return true;
    }
    if (i == 0 || strstr(error, "No such file") == NULL) {
      snprintf(first_error, sizeof first_error, "%s", error);
    }
  }
  return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                     "CANN's library %s%s%s cannot be opened (%s): is CANN installed, and was its set_env.sh "
                     "sourced, or ASCEND_HOME_PATH set?",
                     choices[0], choices[1] != NULL ? " or " : "", choices[1] != NULL ? choices[1] : "",
                     first_error);
}

static bool open_all(const char *file, const char *home, struct handles *handles, struct status *status) {
  if (file != NULL) {
    char error[512];
    handles->handles[0] = open_library(file, error, sizeof error);
    if (handles->handles[0] == NULL) {
      return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "library %s cannot be opened: %s", file,
                         error);
    }
    handles->count = 1;
    return true;
  }
  for (size_t i = 0; i < GROUPS; i++) {
    if (!open_group(groups[i], home, handles, status)) {
      return false;
    }
  }
  return true;
}

static void *find_symbol(const struct handles *handles, const char *name) {
  void *symbol = NULL;
  for (size_t i = 0; i < handles->count && symbol == NULL; i++) {
    symbol = dlsym(handles->handles[i], name);
  }
  return symbol;
}

// Without these a worker does its work another way, or says that it can't where somebody asks for it.
static bool is_optional(const char *name) {
  static const char *const optional[] = {
      "aclrtGetVersion",         "aclrtCtxSetSysParamOpt",
      "aclrtSetSysParamOpt",     "aclSetAclOpExecutorRepeatable",
      "aclSetInputTensorAddr",   "aclSetOutputTensorAddr",
      "aclDestroyAclOpExecutor",
  };
  for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++) {
    if (strcmp(name, optional[i]) == 0) {
      return true;
    }
  }
  return false;
}

static bool find_functions(const struct handles *handles, struct acl_functions *functions,
                           struct status *status) {
  // A function pointer's bytes are those of dlsym's result: POSIX says so, C has no cast for it.
  void *symbol;
#define ACL_FUNCTION_FIND(type, name, arguments)                                                             \
  symbol = find_symbol(handles, #name);                                                                      \
  if (symbol == NULL && !is_optional(#name)) {                                                               \
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,                                              \
                       "the library has no function %s: this CANN is too old, or no CANN", #name);           \
  }                                                                                                          \
  memcpy(&functions->name, &symbol, sizeof symbol);
  ACL_FUNCTIONS(ACL_FUNCTION_FIND)
#undef ACL_FUNCTION_FIND
  return true;
}

static void note_missing(struct acl_library *library, const char *name) {
  size_t used = strlen(library->missing);
  snprintf(library->missing + used, sizeof library->missing - used, "%s%s",
           used == 0 ? "this CANN is too old for " : ", ", name);
}

static void find_operators(const struct handles *handles, struct acl_library *library) {
  assert(operator_count() <= ACL_OPERATORS_MAX);
  for (size_t i = 0; i < operator_count(); i++) {
    const struct npu_binding *binding = operator_at(i)->npu;
    if (binding == NULL) {
      continue;
    }
    void *workspace_symbol = find_symbol(handles, binding->workspace_symbol);
    void *run_symbol = find_symbol(handles, binding->run_symbol);
    if (workspace_symbol == NULL || run_symbol == NULL) {
      note_missing(library, operator_at(i)->name);
      continue;
    }
    memcpy(&library->operators[i].get_workspace_size, &workspace_symbol, sizeof workspace_symbol);
    memcpy(&library->operators[i].run, &run_symbol, sizeof run_symbol);
    library->operator_mask |= UINT32_C(1) << i;
  }
}

bool acl_library_open(const char *file, const char *home, struct acl_library *library,
                      struct status *status) {
  struct handles handles = {0};
  struct acl_library opened = {0};
  if (!open_all(file, home, &handles, status) || !find_functions(&handles, &opened.functions, status)) {
    return false;
  }
  find_operators(&handles, &opened);
  if (opened.operator_mask == 0) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "%s: its libraries have no such function",
                       opened.missing);
  }
  *library = opened;
  return true;
}
