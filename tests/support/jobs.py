"""Jobs to send: requests, their data and what has to come back."""

import dataclasses

import numpy

import messages
import reference
from messages import BACKWARD, FORWARD, FLOAT, INT32, INT64, blob, tensor_desc

GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT = range(4)


@dataclasses.dataclass
class Backward:
    """A backward job over fp32 values; tensor indices as in GRAD_OUTPUT and following."""

    grad_output: numpy.ndarray
    indices: numpy.ndarray
    input_shape: tuple
    _expected: bytes = dataclasses.field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def make(cls, planes=(2, 3), input_size=(8, 8), output_size=(2, 2), index_type=numpy.int64, seed=1):
        random = numpy.random.default_rng(seed)
        shape = tuple(planes) + tuple(output_size)
        cells = input_size[0] * input_size[1]
        return cls(random.normal(0, 9, shape).astype(numpy.float32),
                   random.integers(0, cells, shape).astype(index_type), tuple(planes) + tuple(input_size))

    def arguments(self):
        index_type = INT32 if self.indices.dtype == numpy.int32 else INT64
        return [
            messages.tensor("gradOutput", FLOAT, self.grad_output.shape),
            messages.tensor("self", FLOAT, self.input_shape),
            messages.tensor("indices", index_type, self.indices.shape),
            messages.tensor("gradInput"),
        ]

    def request(self, **more):
        return messages.request(BACKWARD, self.arguments(), **more)

    def data(self):
        """The storages that are sent, by tensor index."""
        return {GRAD_OUTPUT: self.grad_output.tobytes(), INDICES: self.indices.tobytes()}

    def chunks(self, size=messages.CHUNK_BYTES_DEFAULT):
        data = self.data()
        return [item for index in data for item in messages.split(index, data[index], size)]

    def message(self, **begin):
        """Begin and all data in one message."""
        return messages.execute(messages.begin(**(begin or {"request": self.request()})), self.chunks())

    def expected(self):
        """The storage of gradInput; numpy takes long over a large one, so once is enough."""
        if self._expected is None:
            self._expected = reference.backward(self.grad_output, self.indices, self.input_shape).tobytes()
        return self._expected

    def check(self, result):
        assert result.accepted and result.done is not None
        assert set(result.tensors) <= {GRAD_INPUT}
        assert result.tensors.get(GRAD_INPUT, b"") == self.expected()

    def messages(self):
        """Begin and data, a chunk a message."""
        yield messages.execute(messages.begin(request=self.request()))
        for item in self.chunks():
            yield messages.execute(None, [item])

    def run(self, client, **more):
        """Both phases in one round trip; returns the result, checked."""
        (result,) = client.execute(*self.messages(), **more)
        self.check(result)
        return result


def forward_arguments(shape, output_size, data_type=FLOAT):
    return [
        messages.tensor("self", data_type, shape),
        messages.int_array("outputSize", output_size),
        messages.tensor("outputOut"),
        messages.tensor("indicesOut"),
    ]


def forward_request(shape, output_size, data_type=FLOAT, **more):
    return messages.request(FORWARD, forward_arguments(shape, output_size, data_type), **more)


def described(**tensors):
    """Arguments of a request from name = (dtype, shape) or name = keywords of tensor_desc; None leaves one out."""
    out = []
    for name, desc in tensors.items():
        if desc is None:
            continue
        keywords = desc if isinstance(desc, dict) else {"data_type": desc[0], "shape": desc[1]}
        out.append(messages.argument(name, blob(2, tensor_desc(**keywords))))
    return out


def backward_descriptions(**changes):
    """The four tensors of a small, right backward request, with changes."""
    tensors = {
        "gradOutput": {"data_type": FLOAT, "shape": (2, 3, 2, 2)},
        "self": {"data_type": FLOAT, "shape": (2, 3, 8, 8)},
        "indices": {"data_type": INT64, "shape": (2, 3, 2, 2)},
        "gradInput": {"data_type": FLOAT, "shape": (2, 3, 8, 8)},
    }
    for name, change in changes.items():
        tensors[name] = None if change is None else {**tensors[name], **change}
    return described(**tensors)
