"""The shared libraries of this folder through ctypes. Every wrapper gives a `call` without arguments, to be timed."""

import ctypes
import functools

OPERATOR_NAMES = {
    "backward": b"aclnnAdaptiveMaxPool2dBackward", "forward": b"aclnnAdaptiveMaxPool2d", "mm": b"aclnnMm"
}
ERROR_BYTES = 600


class _Memory(ctypes.Structure):
    _fields_ = [("reads", ctypes.c_void_p * 2), ("read_bytes", ctypes.c_size_t * 2), ("writes", ctypes.c_void_p * 2),
                ("write_bytes", ctypes.c_size_t * 2)]


def _shape(shape):
    return (ctypes.c_int64 * 6)(*shape)  # a product leaves three of them 0


class Kernels:
    """libkernel_bench.so: our operators, and the limit of the memory."""

    def __init__(self, path):
        self._lib = ctypes.CDLL(path)
        self._lib.kernel_bench_create.restype = ctypes.c_void_p
        self._lib.kernel_bench_run.restype = ctypes.c_int64
        self._lib.kernel_bench_limit_create.restype = ctypes.c_void_p
        self._lib.kernel_bench_limit_run.restype = ctypes.c_int64
        self._lib.kernel_bench_paths.restype = ctypes.c_char_p
        self._lib.kernel_bench_blas_core.restype = ctypes.c_char_p

    def paths(self):
        """Code paths that this machine can run, the widest last."""
        return self._lib.kernel_bench_paths().decode().split()

    def blas_core(self):
        return self._lib.kernel_bench_blas_core().decode()

    def sgemm(self, case, addresses):
        """A call of cblas_sgemm itself."""
        shape = (ctypes.c_int64 * 3)(*case.shape)
        return functools.partial(self._lib.kernel_bench_sgemm, shape, ctypes.c_int(case.threads),
                                 *map(ctypes.c_void_p, addresses))

    def plan(self, case, index_type, path):
        return _Plan(self._lib, case, index_type, path)

    def limit(self, threads):
        return _Limit(self._lib, threads)


class _Plan:
    """One planned operator with its workspace and its threads."""

    def __init__(self, lib, case, index_type, path):
        self._lib = lib
        self._error = ctypes.create_string_buffer(ERROR_BYTES)
        self._bench = ctypes.c_void_p(
            lib.kernel_bench_create(OPERATOR_NAMES[case.operator], case.value_type.encode(), index_type.encode(),
                                    _shape(case.shape), path.encode(), ctypes.c_size_t(case.threads), self._error))
        if not self._bench:
            raise RuntimeError(self._error.value.decode())

    def call(self, addresses):
        buffers = (ctypes.c_void_p * 3)(*addresses)
        return functools.partial(self._lib.kernel_bench_run, self._bench, buffers, ctypes.c_int64(1), self._error)

    def run(self, addresses):
        """One run whose failure is told."""
        if self.call(addresses)() < 0:
            raise RuntimeError(self._error.value.decode())

    def rest(self):
        self._lib.kernel_bench_rest(self._bench)

    def close(self):
        self._lib.kernel_bench_destroy(self._bench)


class _Limit:

    def __init__(self, lib, threads):
        self._lib = lib
        error = ctypes.create_string_buffer(ERROR_BYTES)
        self._limit = ctypes.c_void_p(lib.kernel_bench_limit_create(ctypes.c_size_t(threads), error))
        if not self._limit:
            raise RuntimeError(error.value.decode())

    def call(self, reads, writes, streaming):
        """Reads and writes are (address, bytes), at most two of each."""
        memory = _Memory()
        for i, (address, size) in enumerate(reads):
            memory.reads[i], memory.read_bytes[i] = address, size
        for i, (address, size) in enumerate(writes):
            memory.writes[i], memory.write_bytes[i] = address, size
        # The reference that byref holds keeps `memory` alive.
        return functools.partial(self._lib.kernel_bench_limit_run, self._limit, ctypes.byref(memory),
                                 ctypes.c_int(streaming), ctypes.c_int64(1))

    def rest(self):
        self._lib.kernel_bench_limit_rest(self._limit)

    def close(self):
        self._lib.kernel_bench_limit_destroy(self._limit)


class OneDnn:
    """libonednn_bench.so: max pooling by oneDNN."""

    def __init__(self, path):
        self._lib = ctypes.CDLL(path)
        self._lib.onednn_pooling_create.restype = ctypes.c_void_p
        self._lib.onednn_pooling_version.restype = ctypes.c_char_p

    def version(self):
        return self._lib.onednn_pooling_version().decode()

    def pooling(self, case, blocked):
        """None where oneDNN can't."""
        pooling = ctypes.c_void_p(
            self._lib.onednn_pooling_create(case.value_type.encode(), _shape(case.shape), ctypes.c_int(blocked)))
        return _Pooling(self._lib, pooling) if pooling else None


class _Pooling:

    def __init__(self, lib, pooling):
        self._lib = lib
        self._pooling = pooling

    def forward(self, self_address, output_address):
        return functools.partial(self._lib.onednn_pooling_forward, self._pooling, ctypes.c_void_p(self_address),
                                 ctypes.c_void_p(output_address))

    def backward(self, grad_output_address, grad_input_address):
        return functools.partial(self._lib.onednn_pooling_backward, self._pooling,
                                 ctypes.c_void_p(grad_output_address), ctypes.c_void_p(grad_input_address))

    def close(self):
        self._lib.onednn_pooling_destroy(self._pooling)
