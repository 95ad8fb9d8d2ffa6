#include "client/c/channel_sockets.h"

#include "client/c/handover.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOWN_CORE_VERSION "29." // of gRPC 1.51
// A channel has one connection; others are dead or about to be.
#define SOCKETS_MAX 4

// gRPC's layout of a mutator's functions. With mutate_fd_2 NULL, mutate_fd is called for clients' sockets.
struct mutator_functions {
  bool (*mutate_fd)(int descriptor, struct channel_sockets *sockets);
  int (*compare)(struct channel_sockets *one, struct channel_sockets *other);
  void (*destroy)(struct channel_sockets *sockets);
  bool (*mutate_fd_2)(const void *info, struct channel_sockets *sockets);
};

struct socket_identity {
  int descriptor;
  dev_t device;
  ino_t inode;
};

struct channel_sockets {
  // The first two are gRPC's layout of a mutator; it counts references itself, with atomic operations.
  const struct mutator_functions *functions;
  intptr_t references;
  pthread_mutex_t lock; // guards the rest
  struct socket_identity sockets[SOCKETS_MAX];
  size_t next; // the place that is overwritten next
};

static bool identify(int descriptor, struct socket_identity *identity) {
  struct stat stat;
  if (fstat(descriptor, &stat) != 0) {
    return false;
  }
  *identity = (struct socket_identity){descriptor, stat.st_dev, stat.st_ino};
  return true;
}

static bool remember(int descriptor, struct channel_sockets *sockets) {
  HANDOVER_TAKE(sockets);
  struct socket_identity identity;
  if (identify(descriptor, &identity)) {
    pthread_mutex_lock(&sockets->lock);
    sockets->sockets[sockets->next] = identity;
    sockets->next = (sockets->next + 1) % SOCKETS_MAX;
    pthread_mutex_unlock(&sockets->lock);
  }
  HANDOVER_GIVE(sockets);
  return true; // whatever happens here, the connection may be used
}

static int compare(struct channel_sockets *one, struct channel_sockets *other) {
  return (one > other) - (one < other);
}

static void destroy(struct channel_sockets *sockets) {
  HANDOVER_TAKE(sockets);
  pthread_mutex_destroy(&sockets->lock);
  free(sockets);
}

static const struct mutator_functions FUNCTIONS = {remember, compare, destroy, NULL};

struct channel_sockets *channel_sockets_create(void) {
  if (strncmp(grpc_version_string(), KNOWN_CORE_VERSION, strlen(KNOWN_CORE_VERSION)) != 0) {
    return NULL;
  }
  struct channel_sockets *sockets = calloc(1, sizeof *sockets);
  if (sockets != NULL) {
    sockets->functions = &FUNCTIONS;
    __atomic_store_n(&sockets->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&sockets->lock, NULL);
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
      sockets->sockets[i].descriptor = -1;
    }
    HANDOVER_GIVE(sockets);
  }
  return sockets;
}

static void *take_reference(void *sockets) {
  __atomic_fetch_add(&((struct channel_sockets *)sockets)->references, 1, __ATOMIC_RELAXED);
  return sockets;
}

void channel_sockets_release(struct channel_sockets *sockets) {
  if (sockets == NULL) {
    return;
  }
  HANDOVER_GIVE(sockets);
  if (__atomic_fetch_sub(&sockets->references, 1, __ATOMIC_ACQ_REL) == 1) {
    destroy(sockets);
  }
}

static void release_reference(void *sockets) {
  channel_sockets_release(sockets);
}

static int compare_pointers(void *one, void *other) {
  return compare(one, other);
}

static const grpc_arg_pointer_vtable POINTER_FUNCTIONS = {take_reference, release_reference,
                                                          compare_pointers};

grpc_arg channel_sockets_argument(struct channel_sockets *sockets) {
  return (grpc_arg){.type = GRPC_ARG_POINTER,
                    .key = (char *)GRPC_ARG_SOCKET_MUTATOR,
                    .value.pointer = {.p = sockets, .vtable = &POINTER_FUNCTIONS}};
}

// The copy of the descriptor stays what it is while its identity is compared.
static void break_socket(const struct socket_identity *wanted) {
  int copy = fcntl(wanted->descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return;
  }
  struct socket_identity found;
  if (identify(copy, &found) && found.device == wanted->device && found.inode == wanted->inode) {
    shutdown(copy, SHUT_RDWR);
  }
  close(copy);
}

void channel_sockets_break(struct channel_sockets *sockets) {
  pthread_mutex_lock(&sockets->lock);
  for (size_t i = 0; i < SOCKETS_MAX; i++) {
    if (sockets->sockets[i].descriptor >= 0) {
      break_socket(&sockets->sockets[i]);
    }
  }
  pthread_mutex_unlock(&sockets->lock);
}
