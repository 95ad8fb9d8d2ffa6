"""The Python client at work: python_client.py ADDRESS, then on stdin

    backward N C H W HO WO    one job, both phases in one call
"""

import sys
import time

import numpy

import aclnn_client


class Backward:
    """A job with its data: one index of each window, all different."""

    def __init__(self, shape):
        planes, (height, width), (rows, columns) = tuple(shape[:2]), shape[2:4], shape[4:]
        random = numpy.random.default_rng(1)
        self.grad_output = random.standard_normal(planes + (rows, columns), numpy.float32)
        top = numpy.arange(rows)[:, None] * height // rows
        left = numpy.arange(columns) * width // columns
        inside = random.integers(0, min(height // rows, width // columns), self.grad_output.shape)
        self.indices = ((top + inside) * width + left + inside).astype(numpy.int32)
        self.spec = aclnn_client.TensorSpec("float32", planes + (height, width))
        self.checked = False

    def check(self, grad_input):
        """The first result; the others are made the same way."""
        if not self.checked:
            flat = self.indices.reshape(self.grad_output.shape[:2] + (-1,))
            expected = numpy.zeros(grad_input.shape[:2] + (grad_input.shape[2] * grad_input.shape[3],), numpy.float32)
            numpy.put_along_axis(expected, flat, self.grad_output.reshape(flat.shape), 2)
            if not numpy.array_equal(expected, grad_input.reshape(expected.shape)):
                sys.exit("a result is wrong")
            self.checked = True


def main():
    client = aclnn_client.Client(sys.argv[1])
    jobs = {}
    for line in sys.stdin:
        name, *words = line.split()
        if name != "backward":
            sys.exit(f"no command {name}")
        shape = tuple(map(int, words))
        job = jobs.setdefault(shape, None) or Backward(shape)
        jobs[shape] = job
        begin = time.perf_counter()
        result = client.adaptive_max_pool2d_backward(job.grad_output, job.spec, job.indices)
        seconds = time.perf_counter() - begin
        job.check(result)
        del result
        print(f"ok seconds={seconds:.9g}", flush=True)
    client.close()


if __name__ == "__main__":
    main()
