#include "client/cli/output_file.h"

#include "client/cli/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_file_open(const char *path, struct output_file *file, struct failure *failure) {
  *file = (struct output_file){.path = path, ._created = true};
  file->_descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file->_descriptor < 0 && errno == EEXIST) {
    file->_created = false;
    file->_descriptor = open(path, O_WRONLY | O_CLOEXEC);
  }
  if (file->_descriptor < 0) {
    (void)failure_set(failure, "%s: %s", path, strerror(errno));
    file->path = NULL;
    return false;
  }
  return true;
}

void output_file_abandon(struct output_file *file) {
  if (file->path == NULL) {
    return;
  }
  close(file->_descriptor);
  if (file->_created) {
    unlink(file->path);
  }
  file->path = NULL;
}

static bool write_all(int descriptor, const void *data, size_t size) {
  const uint8_t *at = data;
  while (size > 0) {
    ssize_t written = write(descriptor, at, size);
    if (written < 0 && errno != EINTR) {
      return false;
    }
    if (written > 0) {
      at += written;
      size -= (size_t)written;
    }
  }
  return true;
}

static bool empty_file(int descriptor) {
  struct stat stat;
  // What isn't a regular file (a device, a pipe) has no length to cut.
  return fstat(descriptor, &stat) == 0 && (!S_ISREG(stat.st_mode) || ftruncate(descriptor, 0) == 0);
}

static size_t view_bytes(const aclnn_tensor *tensor) {
  size_t bytes = aclnn_data_type_bytes(tensor->data_type);
  for (size_t i = 0; i < tensor->rank; i++) {
    bytes *= (size_t)tensor->shape[i];
  }
  return bytes;
}

bool output_file_write(struct output_file *file, const aclnn_tensor *tensor, struct failure *failure) {
  uint8_t header[NPY_WRITTEN_HEADER_BYTES_MAX];
  size_t size = npy_format_header(tensor->data_type, tensor->rank, tensor->shape, header);
  if (size == 0) {
    output_file_abandon(file);
    return failure_set(failure, "%s: a .npy file can't hold elements of type %s (number %d)", tensor->name,
                       aclnn_data_type_name(tensor->data_type), (int)tensor->data_type);
  }
  bool ok = empty_file(file->_descriptor) && write_all(file->_descriptor, header, size) &&
            write_all(file->_descriptor, tensor->data, view_bytes(tensor));
  int error = errno;
  if (close(file->_descriptor) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (!ok) {
    (void)failure_set(failure, "%s: %s", file->path, strerror(error));
    if (file->_created) {
      unlink(file->path);
    }
  }
  file->path = NULL;
  return ok;
}
