"""Hash maps, compared with dicts."""

from __future__ import annotations

import numpy as np
import pytest

import gravel as gr
from libraries import on_gpu

COUNT = 700


def drawn(pe, key, value):
    """Keys of a PE, some of them repeated, with the extreme ones; and their values, whose sums are exact."""
    random = np.random.default_rng(900 + pe)
    limits = np.iinfo(key)
    few = random.integers(200, size=COUNT).astype(key)
    few[:4] = [limits.min, limits.max, 0, limits.max]
    low = 0 if value.startswith("u") else -50
    return few, random.integers(low, 50, size=COUNT).astype(value)


def sums(key, value):
    wanted = {}
    for pe in range(gr.n_pes()):
        for k, v in zip(*drawn(pe, key, value)):
            wanted[int(k)] = wanted.get(int(k), np.dtype(value).type(0)) + v
    return wanted


def has_items(counts, wanted):
    """Whether the map has these items: those of each PE are among them, and all PEs have as many. Collective."""
    keys, values = (part.tolist() for part in counts.local_items())
    assert len(keys) == len(values) == counts.local_size()
    here = dict(zip(keys, values))
    is_right = len(here) == len(keys) and all(k in wanted and wanted[k] == v for k, v in here.items())
    return gr.min_all(int(is_right)) == 1 and counts.size() == len(wanted)


@pytest.mark.parametrize(
    ("key", "value"),  # each size of keys with each type of sums
    [("u4", "i4"), ("i4", "u8"), ("u4", "f4"), ("i4", "f8"), ("u8", "u4"), ("i8", "i8"), ("u8", "f4"), ("i8", "f8")],
)
def test_add_find_and_erase(library, key, value):
    if not on_gpu() and library.name == "torch" and value not in ("u8", "f4"):
        pytest.skip("on the CPU backend some types suffice")
    counts = gr.Map(key, value, capacity=3000)
    assert (counts.key, counts.value, counts.capacity) == (np.dtype(key), np.dtype(value), 3000)
    keys, values = drawn(gr.my_pe(), key, value)
    counts.add(library.new(keys), library.new(values))
    gr.barrier()
    wanted = sums(key, value)
    assert has_items(counts, wanted)
    asked = np.concatenate([keys, np.array([1000, 1001], key)]).reshape(2, -1)
    got, found = counts.find(library.new(asked))
    got, found = library.host(got), library.host(found)
    assert got.dtype == counts.value and found.dtype == bool and got.shape == found.shape == asked.shape
    assert found.ravel()[:-2].all() and not found.ravel()[-2:].any() and (got.ravel()[-2:] == 0).all()
    assert got.ravel()[:-2].tolist() == [wanted[int(k)] for k in keys]
    gr.barrier()  # all PEs have found their keys
    if gr.my_pe() == 0:
        counts.erase(library.new(keys))
    gr.barrier()
    for k in drawn(0, key, value)[0]:
        wanted.pop(int(k), None)
    assert has_items(counts, wanted) and len(counts) == len(wanted)
    counts.free()


def test_insert_keeps_the_first(library):
    names = gr.Map("u8", "i4", capacity=1000)
    mine = np.arange(100, dtype="u8") + 50 * gr.my_pe()
    names.insert(library.new(mine), library.new(mine.astype("i4") + 1000))
    gr.quiet()  # two calls that change one key have no order
    names.insert(library.new(mine), -5)
    gr.barrier()
    if gr.my_pe() == 0:
        names.insert([3, 4000], [1, 2])
    gr.barrier()
    wanted = {k: k + 1000 for k in range(50 + 50 * gr.n_pes())} | {4000: 2}
    assert has_items(names, wanted)
    names.free()


def test_keys_of_16_bytes(library):
    """Keys that differ in either word."""
    counts = gr.Map("u8x2", "u4", capacity=3000)
    random = np.random.default_rng(5 + gr.my_pe())
    keys = random.integers(30, size=(COUNT, 2)).astype("u8") << np.array([0, 50], "u8")
    counts.add(library.new(keys), library.new(np.ones(COUNT, "u4")))
    gr.barrier()
    wanted = {}
    for pe in range(gr.n_pes()):
        for low, high in np.random.default_rng(5 + pe).integers(30, size=(COUNT, 2)).tolist():
            wanted[low, high << 50] = wanted.get((low, high << 50), 0) + 1
    mine = {tuple(k): v for k, v in zip(*(part.tolist() for part in counts.local_items()))}
    assert all(wanted[k] == v for k, v in mine.items()) and counts.size() == len(wanted)
    asked = np.concatenate([keys, np.full((1, 2), 77, "u8")])
    got, found = counts.find(library.new(asked))
    assert library.host(found).tolist() == [True] * COUNT + [False]
    assert library.host(got).tolist() == [wanted[tuple(k)] for k in keys.tolist()] + [0]
    gr.barrier()
    counts.erase(library.new(keys))
    assert counts.size() == 0 and "u8x2 to u4" in repr(counts)
    counts.free()


@pytest.mark.parametrize(
    ("key", "value"), [("i4", "f4x4"), ("u8", "u4x2"), ("i8x2", "f8x2"), ("u4", "u8"), ("u8x2", "f8")]
)
def test_values_of_several_numbers(library, key, value):
    words, parts = 2 if key.endswith("x2") else 1, int(value.partition("x")[2] or 1)
    places = gr.Map(key, value, capacity=1000)
    number = np.arange(100) + 60 * gr.my_pe()
    keys = np.repeat(number, words).reshape(100, *((words,) if words > 1 else ())).astype(places.key.base)
    shape = (100, *((parts,) if parts > 1 else ()))
    values = (np.arange(100 * parts) + 60 * parts * gr.my_pe()).reshape(shape).astype(places.value.base)
    places.insert(library.new(keys), library.new(values))
    gr.barrier()
    got, found = places.find(library.new(keys))
    assert np.array_equal(library.host(got), values) and library.host(found).all() and found.shape == (100,)
    found_keys, found_values = places.local_items()
    assert found_values.shape == (places.local_size(), *shape[1:]) and found_keys.shape[1:] == keys.shape[1:]
    if parts > 1:
        with pytest.raises(TypeError, match=f"Map.add: values of {value}: only single numbers"):
            places.add(library.new(keys), library.new(values))
    assert places.size() == 40 + 60 * gr.n_pes()
    places.free()


def test_one_value_and_lists():
    counts = gr.Map(key="i8", value="f4", capacity=100)
    counts.add([-1, 5, 5], 0.5)
    counts.add([], 1)
    gr.barrier()
    values, found = counts.find([5, -1, 7])
    assert values.tolist() == [gr.n_pes(), gr.n_pes() / 2, 0] and found.tolist() == [True, True, False]
    assert counts.find([])[0].shape == (0,)
    gr.barrier()
    counts.free()


def test_room():
    counts = gr.Map("u4", "u4", capacity=50)
    mine = np.arange(40, dtype="u4") + 40 * gr.my_pe()
    total = 40 * gr.n_pes()
    with pytest.raises(ValueError, match="a capacity of 0 items"):
        counts.reserve(0)
    counts.reserve(total + 10)
    assert counts.capacity == total + 10
    counts.add(mine, mine)
    gr.barrier()
    with pytest.raises(gr.Error, match="cannot be made for 3"):
        counts.reserve(3)
    counts.reserve(4 * total)
    assert has_items(counts, {k: k for k in range(total)})
    counts.clear()
    assert has_items(counts, {})
    counts.insert(mine, 1)
    assert counts.size() == total
    counts.free()


def test_growth_and_collective_calls(library):
    """Collective calls: a map for few items grows, one that may not is not made to, and each PE finds all keys."""
    counts, names = gr.Map("u8", "u4", capacity=20), gr.Map("u4", "f4x2", capacity=8, grow=True)
    keys = np.arange(500 + 10 * gr.my_pe(), dtype="u8")
    for _ in range(2):
        counts.add(library.new(keys), 1, collective=True)
    counts.add([], 1, collective=True)
    assert counts.capacity >= 500 and counts.size() == 490 + 10 * gr.n_pes()
    values, found = counts.find(library.new(np.arange(2000, dtype="u8")), collective=True)
    values, found = library.host(values), library.host(found)
    wanted = np.zeros(2000, "u4")
    for pe in range(gr.n_pes()):
        wanted[: 500 + 10 * pe] += 2
    assert (values == wanted).all() and (found == (wanted != 0)).all()
    if gr.my_pe() == 0:
        names.insert(library.new(np.arange(300, dtype="u4")), library.new(np.ones((300, 2), "f4")), collective=True)
    else:
        names.insert([], np.empty((0, 2), "f4"), collective=True)
    assert names.size() == 300
    fixed = gr.Map("u8", "u4", capacity=20, grow=False)
    fixed.insert([1, 2, 3], 5, collective=True)
    assert fixed.capacity == 20 and fixed.size() == 3
    with pytest.raises((TypeError, gr.Error), match="Map.insert: (values have dtype|PE 0 has made a mistake)"):
        fixed.insert([4], np.arange(1) if gr.my_pe() == 0 else 5, collective=True)
    for each in (counts, names, fixed):
        each.free()


def test_mistakes():
    counts = gr.Map("u8", "f8", capacity=100)
    keys = np.arange(4, dtype="u8")
    with pytest.raises(TypeError, match=r"Map.add: keys have dtype int64, those of the map uint64: .*astype\('u8'\)"):
        counts.add(np.arange(4), 1.0)
    with pytest.raises(TypeError, match="Map.find: keys have dtype float64, which does not become uint64"):
        counts.find([0.5])
    with pytest.raises(OverflowError, match="keys do not fit dtype uint64"):
        counts.erase([-1])
    with pytest.raises(TypeError, match="Map.erase: keys are an array or a list of integers, not int"):
        counts.erase(5)
    with pytest.raises(TypeError, match="not Array"):
        counts.erase(gr.zeros(4, "u8"))
    with pytest.raises(ValueError, match="keys is not contiguous"):
        counts.insert(np.arange(8, dtype="u8")[::2], 1.0)
    with pytest.raises(TypeError, match="Map.insert: values have dtype int64, the map float64"):
        counts.insert(keys, np.arange(4))
    with pytest.raises(ValueError, match=r"Map.add: values have shape \(3,\), keys \(4,\)"):
        counts.add(keys, np.zeros(3))
    with pytest.raises(TypeError, match="Map: keys of dtype float64"):
        gr.Map("f8", "u8", capacity=10)
    with pytest.raises(TypeError, match="Map: dtype int16"):
        gr.Map("i2", "u8", capacity=10)
    with pytest.raises(TypeError, match="Map: dtype float16: Gravel has i4, u4, i8, u8, f4, f8 here"):
        gr.Map("u8", "f2", capacity=10)
    with pytest.raises(TypeError, match="Map: dtype u8x4: several numbers, such as 'u8x2', have 4, 8 or 16 bytes"):
        gr.Map("u8x4", "u8", capacity=10)
    pairs = gr.Map("u8x2", "u8", capacity=10)
    with pytest.raises(ValueError, match=r"keys have shape \(4, 3\): a key of u8x2 has 2 numbers"):
        pairs.find(np.zeros((4, 3), "u8"))
    with pytest.raises(ValueError, match=r"keys have shape \(4,\): a key of u8x2 has 2"):
        pairs.find(keys)
    pairs.free()
    with pytest.raises(ValueError, match="a capacity of 0 items"):
        gr.Map("u8", "u8")
    with pytest.raises(TypeError, match="the number of items is an int, not float"):
        gr.Map("u8", "u8", capacity=1e6)
    with pytest.raises(TypeError, match="neither true nor false"):
        assert counts
    assert "room for 100 items" in repr(counts)
    counts.free()
    assert "closed" in repr(counts) and not counts.is_open
    for call in (counts.size, counts.clear, counts.local_items, lambda: counts.add(keys, 1.0), counts.free):
        with pytest.raises(ValueError, match="the map was freed"):
            call()


def test_pes_that_differ():
    if gr.n_pes() == 1:
        pytest.skip("needs two PEs")
    me = gr.my_pe()
    with pytest.raises(ValueError, match="Map for 100 items with keys uint64, values u4 at PE 0"):
        gr.Map("u8", "u4" if me == 0 else "u8", capacity=100)
    with pytest.raises(ValueError, match="Map for 100 items with keys uint64 x 2, values u4 at PE 0"):
        gr.Map("u8x2" if me == 0 else "u8", "u4", capacity=100)
    with pytest.raises(ValueError, match="Map for 1.. items"):
        gr.Map("u8", "u4", capacity=100 + me)
    one, two = gr.Map("u8", "u8", capacity=100), gr.Map("u8", "u8", capacity=100)
    with pytest.raises(ValueError, match="the calls of the PEs differ: Map.size of map"):
        (one if me == 0 else two).size()
    with pytest.raises(ValueError, match="the calls of the PEs differ"):
        (one.clear if me == 0 else two.free)()
    two.free()
    one.free()


def test_too_large_for_the_memory():
    with pytest.raises(gr.Error, match="(?i)memory|heap"):
        gr.Map("u8", "u8", capacity=1 << 44)


def test_current_stream(library):
    """Keys are read in the stream in which they have just been written."""
    if not on_gpu() or library.name == "numpy":
        pytest.skip("streams are of GPUs")
    counts = gr.Map("i8", "i4", capacity=1 << 17)
    keys = library.new(np.zeros(1 << 16, "i8"))
    gr.quiet()
    stream = library.module.cuda.Stream()
    with library.module.cuda.stream(stream) if library.name == "torch" else stream:
        for _ in range(20):
            keys += 1
            counts.add(keys, 1)
        gr.quiet()
    gr.barrier()
    assert has_items(counts, {k: gr.n_pes() << 16 for k in range(1, 21)})
    counts.free()
