"""TensorSpec, Tensor, and the storages that arrays become."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from aclnn_client import Tensor, TensorSpec
from aclnn_client import _arrays as arrays
from aclnn_client._tensors import desc_to_spec, dtype_name, spec_to_desc

RNG = np.random.default_rng(7)


def sent(array: Any) -> "tuple[TensorSpec, bytes]":
    """How an array travels."""
    spec = TensorSpec.of(array)
    return spec, bytes(arrays.storage_of("x", array, spec))


def received(spec: TensorSpec, data: bytes) -> Any:
    """What somebody sees who reads the storage by its description."""
    return arrays.build(spec, np.frombuffer(data, np.uint8), arrays.Flavour())


def is_sent_without_copy(array: np.ndarray) -> bool:
    storage = arrays.storage_of("x", array, TensorSpec.of(array))
    return np.shares_memory(np.frombuffer(storage, np.uint8), array)


@pytest.mark.parametrize(
    "given, name",
    [
        ("fp32", "float32"),
        ("BF16", "bfloat16"),
        ("half", "float16"),
        (np.float32, "float32"),
        (np.dtype(">i8"), "int64"),
        (bool, "bool"),
        ("hifloat8", "hifloat8"),
    ],
)
def test_data_types_have_many_names(given: Any, name: str) -> None:
    assert dtype_name(given) == name


@pytest.mark.parametrize("given", ["float7", object, np.dtype("M8[s]"), np.dtype("U3"), np.dtype([("a", "i4")])])
def test_unknown_data_types_are_named_in_the_error(given: Any) -> None:
    with pytest.raises(TypeError, match="not supported"):
        dtype_name(given)


def test_contiguous_arrays_travel_as_they_lie() -> None:
    array = RNG.random((3, 4, 5), np.float32)
    spec, data = sent(array)
    assert spec == TensorSpec("float32", (3, 4, 5))
    assert data == array.tobytes()
    assert is_sent_without_copy(array)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.transpose(0, 2, 3, 1),
        lambda a: a[:, :, 1:, :-1],
        lambda a: a[1:, 2:],
        lambda a: a[:, :, ::2, :],
        lambda a: a.swapaxes(1, 3)[:, 1:],
    ],
)
def test_strided_views_travel_without_a_copy(view: Any) -> None:
    array = view(RNG.random((4, 6, 8, 10), np.float32))
    spec, data = sent(array)
    assert is_sent_without_copy(array)
    assert spec.strides is not None and len(data) == spec.storage_bytes
    assert np.array_equal(received(spec, data), array)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[..., ::5],  # spans five times its elements
        lambda a: a[:, ::-1],
        lambda a: a[::-1, :, ::-1],
    ],
)
def test_wide_and_reversed_views_are_packed(view: Any) -> None:
    array = view(RNG.random((4, 6, 8, 10), np.float32))
    spec, data = sent(array)
    assert spec.strides is None and len(data) == array.nbytes
    assert np.array_equal(received(spec, data), array)


def test_expanded_arrays_travel_with_stride_zero() -> None:
    array = np.broadcast_to(np.float32(2.5), (8, 16, 100, 100))
    spec, data = sent(array)
    assert spec.strides == (0, 0, 0, 0) and len(data) == 4
    assert np.array_equal(received(spec, data), array)
    rows = np.broadcast_to(RNG.random((4, 1, 5), np.float32), (4, 1000, 5))
    spec, data = sent(rows)
    assert spec.strides == (5, 0, 1) and len(data) == 80
    assert np.array_equal(received(spec, data), rows)


def test_what_is_expanded_and_wide_is_packed_without_being_multiplied() -> None:
    wide = RNG.random((4, 50), np.float32)[:, ::10]
    array = np.broadcast_to(wide[:, None, :], (4, 1000, 5))
    spec, data = sent(array)
    assert spec.strides == (5, 0, 1) and len(data) == 80
    assert np.array_equal(received(spec, data), array)


def test_strides_of_dimensions_of_size_one_do_not_matter() -> None:
    array = np.lib.stride_tricks.as_strided(RNG.random(6, np.float32), (1, 2, 1, 3), (4000, 12, 8000, 4))
    spec, data = sent(array)
    assert spec.strides is None
    assert data == array.tobytes()


def test_fields_of_records_are_packed() -> None:
    records = np.zeros(5, [("flag", "u1"), ("value", "<f4")])
    records["value"] = np.arange(5)
    spec, data = sent(records["value"])
    assert spec.strides is None and np.array_equal(received(spec, data), np.arange(5, dtype=np.float32))


@pytest.mark.parametrize("code", [">f4", ">i8", ">f2"])
def test_foreign_byte_order_is_converted(code: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(code)
    spec, data = sent(array)
    assert data == array.astype("<" + code[1:]).tobytes()
    assert np.array_equal(received(spec, data), array)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (1, 4, 0, 0)])
def test_empty_arrays_have_no_storage(shape: "tuple[int, ...]") -> None:
    spec, data = sent(np.empty(shape, np.float32))
    assert spec.storage_bytes == 0 and data == b""
    assert received(spec, data).shape == shape


def test_scalars_have_rank_zero() -> None:
    spec, data = sent(np.float32(3))
    assert spec.shape == () and data == np.float32(3).tobytes()


def test_trailing_zeros_are_kept() -> None:
    array = np.concatenate([np.arange(10), np.zeros(64)]).astype(np.float32)
    assert sent(array)[1] == array.tobytes()


@pytest.mark.parametrize("value", [[1.0, 2.0], "text", None, 3, {"a": 1}, np.ma.masked_array([1.0], [True])])
def test_what_is_no_tensor_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        TensorSpec.of(value)


def test_arrays_are_laid_out_as_the_plan_wants() -> None:
    array = RNG.random((2, 3, 4), np.float32)
    spec = TensorSpec("float32", (2, 3, 4), strides=(20, 1, 4), storage_offset=3, storage_elements=50)
    data = bytes(arrays.storage_of("x", array, spec))
    assert len(data) == 200
    assert np.array_equal(received(spec, data), array)
    holes = np.frombuffer(data, np.float32).copy()
    assert np.count_nonzero(holes) == array.size


def test_arrays_of_another_type_or_shape_than_the_plan_are_refused() -> None:
    spec = TensorSpec("float32", (2, 3))
    for wrong in (np.zeros((2, 3), np.float64), np.zeros((3, 2), np.float32), np.zeros((2, 3, 1), np.float32)):
        with pytest.raises(ValueError, match="x is .* the plan says float32"):
            arrays.storage_of("x", wrong, spec)


def test_an_array_that_is_not_expanded_does_not_fit_an_expanded_plan() -> None:
    spec = TensorSpec("float32", (4, 4), strides=(0, 1))
    with pytest.raises(ValueError, match="share memory"):
        arrays.storage_of("x", np.zeros((4, 4), np.float32), spec)


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("float32", (4, 4), strides=(8, 1)),
        TensorSpec("float32", (4, 4), storage_offset=1),
        TensorSpec("float32", (4, 4), storage_offset=-1),
        TensorSpec("float32", (2, 2), strides=(-2, 1)),
    ],
)
def test_results_outside_of_their_storage_are_refused(spec: TensorSpec) -> None:
    with pytest.raises(ValueError):
        arrays.build(spec, np.zeros(64, np.uint8), arrays.Flavour())


def test_a_result_without_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="4 elements don't fit into 0 bytes"):
        arrays.build(TensorSpec("float32", (2, 2)), np.empty(0, np.uint8), arrays.Flavour())


def test_specs_survive_the_wire() -> None:
    for spec in (
        TensorSpec("bfloat16", (2, 3)),
        TensorSpec("int64", (2, 3), strides=(4, 1), storage_offset=2, storage_elements=99, format="NCHW"),
        TensorSpec("float32", ()),
    ):
        desc = {"format": 0, **spec_to_desc(spec)}
        assert desc_to_spec(desc) == spec


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="format is 'NHCW', it can be: nd, nchw"):
        TensorSpec("float32", (1,), format="nhcw")


# ---- bfloat16


def test_all_bfloat16_patterns_survive_float32() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    values = Tensor(bits, "bfloat16").to_float32()
    again = Tensor.from_float32(values).bits
    nan = np.isnan(values)
    assert np.array_equal(again[~nan], bits[~nan])
    assert np.isnan(Tensor(again, "bfloat16").to_float32()[nan]).all()


@pytest.mark.parametrize(
    "value, bits",
    [
        (0x3F808000, 0x3F80),  # a tie goes to the even neighbour below
        (0x3F818000, 0x3F82),  # and above
        (0x3F808001, 0x3F81),
        (0x3F807FFF, 0x3F80),
        (0x7F7FFFFF, 0x7F80),  # overflows to infinity
        (0x80000000, 0x8000),
        (0x00000001, 0x0000),
        (0x7F800001, 0x7FC0),  # a NaN whose upper half looks like infinity
        (0xFFFFFFFF, 0xFFFF),
    ],
)
def test_float32_is_rounded_to_nearest_even(value: int, bits: int) -> None:
    array = np.array([value], np.uint32).view(np.float32)
    assert Tensor.from_float32(array).bits[0] == bits


def test_bits_must_have_the_size_of_the_type() -> None:
    with pytest.raises(TypeError, match="cannot be the bits of a bfloat16"):
        Tensor(np.zeros(3, np.float32), "bfloat16")
    with pytest.raises(TypeError, match="cannot be the bits of a int64"):
        Tensor(np.array([None]), "int64")


def test_raw_bfloat16_travels_as_its_bits() -> None:
    bits = RNG.integers(0, 65536, (3, 4)).astype(np.uint16)
    spec, data = sent(Tensor(bits, "bfloat16"))
    assert spec == TensorSpec("bfloat16", (3, 4)) and data == bits.tobytes()


def test_numpy_in_bfloat16_comes_out_as_a_tensor_without_ml_dtypes(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    arrays._numpy_bfloat16.cache_clear()
    built = arrays.build(TensorSpec("bfloat16", (2,)), np.zeros(4, np.uint8), arrays.Flavour())
    arrays._numpy_bfloat16.cache_clear()
    assert isinstance(built, Tensor) and built.shape == (2,)


def test_numpy_in_bfloat16_comes_out_in_ml_dtypes_type_if_it_is_there(monkeypatch: Any) -> None:
    import types

    stand_in = np.dtype([("bits", "<u2")])
    monkeypatch.setitem(sys.modules, "ml_dtypes", types.SimpleNamespace(bfloat16=stand_in))
    arrays._numpy_bfloat16.cache_clear()
    built = arrays.build(TensorSpec("bfloat16", (2,)), np.zeros(4, np.uint8), arrays.Flavour())
    arrays._numpy_bfloat16.cache_clear()
    assert built.dtype == stand_in and built.shape == (2,)


# ---- torch


def test_torch_tensors_travel_as_they_lie() -> None:
    torch = pytest.importorskip("torch")
    image = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    spec, data = sent(image)
    assert spec == TensorSpec("float32", (2, 3, 4, 5), strides=image.stride())
    assert data == image.permute(0, 2, 3, 1).contiguous().numpy().tobytes()
    spec, data = sent(torch.ones(2, 3).expand(4, 2, 3))
    assert spec.strides == (0, 3, 1) and len(data) == 24


def test_torch_bfloat16_travels_as_its_bits() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.rand(3, 4).bfloat16().requires_grad_().t()
    spec, data = sent(tensor)
    assert spec == TensorSpec(torch.bfloat16, (4, 3), strides=(1, 4))
    built = arrays.build(spec, np.frombuffer(data, np.uint8).copy(), arrays.Flavour(torch=True))
    assert built.dtype == torch.bfloat16 and torch.equal(built, tensor)


def test_torch_tensors_that_are_not_strided_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="layout"):
        TensorSpec.of(torch.eye(3).to_sparse())
    with pytest.raises(TypeError, match="quint8"):
        TensorSpec.of(torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8))
