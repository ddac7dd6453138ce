"""Kernels and handlers of the program. The job is joined with those of sources.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gravel as gr
from gravel import _job, _kernel_cache, _kernels
from libraries import on_gpu

SECOND = "#include <cassert>\n__global__ void count(int* to, int step) { assert(step); to[threadIdx.x] += step; }"


@pytest.fixture
def compiler():
    """Skips the test where kernels cannot be compiled."""
    if why := _kernel_cache.why_no_compiler():
        pytest.skip(why)


@pytest.fixture
def walk(compiler):
    found = _job.kernels_of_job()
    assert found is not None
    return found


@pytest.fixture
def device(library):
    """A library whose arrays kernels can read."""
    if on_gpu() and library.name == "numpy":
        pytest.skip("NumPy's arrays are in memory of the host")
    return library


def of_all(value: int) -> int:
    return int(gr.sum_all(value))


def test_walks(walk):
    """Handlers send on, and find their context."""
    visits = gr.zeros(16 * gr.n_pes(), "u8")
    walk.set_context("visit", visits)
    gr.barrier()
    walk.start[3, 32](gr.my_pe() * 1000, 9)
    walk.start[(2, 1, 1), (7,)](gr.my_pe(), np.uint32(0))
    gr.wait_quiescent()
    assert of_all(visits.copy_local().sum()) == gr.n_pes() * (3 * 32 * 10 + 14)
    visits.free()


def test_handlers_on_the_host(walk):
    notes = np.zeros(2, "i4")
    walk.set_context("note", notes)
    gr.barrier()
    walk.notify[2, 3](gr.my_pe() + 1, (gr.my_pe() + 1) % gr.n_pes())
    gr.barrier()
    assert notes.tolist() == [6 * ((gr.my_pe() - 1) % gr.n_pes() + 1), 0]


def test_block_senders(walk, device):
    table = gr.zeros(1000, "u8")
    ids = device.new(np.random.default_rng(gr.my_pe()).integers(1000, size=500))
    for grid in (1, 4):
        walk.count[grid, 32](table, ids, len(ids), table.block)
    gr.barrier()
    assert of_all(table.copy_local().sum()) == 1000 * gr.n_pes()
    table.free()


def test_values(walk, device):
    """Kernels without a handle; numbers, structs, and what is not the default."""
    to = device.new(np.zeros(8, "f4"))
    fill = walk["fill<float>"]
    more = np.array([(0.5, 3)], [("x", "f4"), ("n", "i4")])
    fill[1, 8](to, 2, True, more[0])
    gr.quiet()
    assert device.host(to).tolist() == [5.5] * 8
    fill[1, 4](to, np.float32(1.5), np.False_, more.tobytes())
    gr.quiet()
    assert device.host(to).tolist() == [3.0] * 4 + [5.5] * 4
    shapes = device.new(np.zeros(2, "u4"))
    walk.shape[(3, 2), (5, 4), 256, None](shapes, 255)
    gr.quiet()
    assert device.host(shapes).tolist() == [3254, 0]
    walk.shape[2, 4].cooperative()(shapes, 0)
    gr.quiet()
    assert device.host(shapes).tolist() == [2141, 0]


def test_wrong_arguments(walk, device):
    """They are refused before anything starts, and the message names the parameter."""
    table, ids = gr.zeros(10, "u8"), device.new(np.arange(10))
    fill = walk["fill<float>"]
    floats = device.new(np.zeros(8, "f4"))
    pair = bytes(8)
    for error, text, call in (
        (TypeError, r"count takes 4 arguments \(table, ids, n, block\), not 2", lambda: walk.count[1, 32](table, ids)),
        (TypeError, "table is .* dtype int64, and its type is uint64_t", lambda: walk.count[1, 32](ids, ids, 1, 10)),
        (TypeError, "ids is .* of dtype uint64.* int64_t", lambda: walk.count[1, 32](table, table, 1, 10)),
        (TypeError, "table is 7", lambda: walk.count[1, 32](7, ids, 1, 10)),
        (TypeError, "n is 1.5, and its type is int32_t: pass an int", lambda: walk.count[1, 32](table, ids, 1.5, 10)),
        (OverflowError, "n is 2147483648", lambda: walk.count[1, 32](table, ids, 1 << 31, 10)),
        (OverflowError, r"block is -1.*uint64_t: 0 to", lambda: walk.count[1, 32](table, ids, 1, -1)),
        (ValueError, "ids is not contiguous", lambda: walk.count[1, 32](table, ids[::2], 1, 10)),
        (TypeError, "value is '1'", lambda: fill[1, 1](floats, "1", True, pair)),
        (OverflowError, "value is 1e[+]39", lambda: fill[1, 1](floats, 1e39, True, pair)),
        (TypeError, "twice is 1", lambda: fill[1, 1](floats, 1, 1, pair)),
        (TypeError, "more is .* pass bytes", lambda: fill[1, 1](floats, 1, True, pair[:4])),
        (TypeError, r"pass two to four", lambda: walk.notify[1]),
        (TypeError, "grid is 1.5", lambda: walk.notify[1.5, 1]),
        (ValueError, "block is 0", lambda: walk.notify[1, 0]),
        (gr.Error, "a block of", lambda: walk.notify[1, 5000](1, 0)),
        (ValueError, "no handler 'visits'", lambda: walk.set_context("visits", table)),
        (TypeError, "context of visit is .* uint64_t", lambda: walk.set_context("visit", ids)),
        (AttributeError, "no kernel 'hidden'", lambda: walk.hidden),
    ):
        with pytest.raises(error, match=text):
            call()
    host = np.zeros(8, "f4")
    host.flags.writeable = False
    error, text = (TypeError, "to is in memory of the host") if on_gpu() else (ValueError, "to is read-only")
    with pytest.raises(error, match=text):
        fill[1, 1](host, 1, True, pair)
    gr.barrier()
    assert not table.copy_local().any()
    table.free()


def test_handlers_after_init(walk):
    with pytest.raises(gr.Error, match="before gravel.init"):
        gr.Kernels("", ["visit"])
    with pytest.raises(ValueError, match="have no handlers"):
        gr.init(kernels=second())
    with pytest.raises(TypeError, match="is a gravel.Kernels, not int"):
        gr.init(kernels=7)


def second() -> gr.Kernels:
    """Another object beside the first one; its kernel has the same name, and does something else."""
    return gr.Kernels(SECOND, options=["-O0"])


def test_two_objects(walk, device):
    other = second()
    to = device.new(np.zeros(5, "i4"))
    for _ in range(2):
        other.count[1, 5](to, 3)
    gr.quiet()
    assert device.host(to).tolist() == [6] * 5
    table = gr.zeros(4, "u8")
    walk.count[1, 32](table, device.new(np.zeros(3, "i8")), 3, table.block)
    gr.barrier()
    assert of_all(table.copy_local().sum()) == 3 * gr.n_pes()
    table.free()


# The cache, with a compiler that takes no time: it copies a library, and notes its calls.

COMPILER = """#!/bin/sh
for word; do
  case $before in -o) to=$word ;; -MF) rules=$word ;; esac
  before=$word
done
if [ "$before" = --version ]; then echo quick 1; exit; fi
echo call >> "$CALLS"
if grep -q wrong "$HEADER"; then echo "$HEADER:1: it is wrong" >&2; exit 1; fi
cp "$LIBRARY" "$to"
printf 'kernels.so: \\\\\n  %s\n' "$HEADER" > "$rules"
"""


@pytest.fixture
def folder(compiler, tmp_path, monkeypatch):
    """A folder of the first PE with a compiler, a header and a cache, which all PEs use."""
    if gr.n_pes() != 2:
        pytest.skip("runs in jobs of two PEs")
    library, _ = _kernel_cache.library_of(_kernels._file_of(SECOND, "<source>", ["count"], []), "", ["-O0"], None)
    shared = Path(str(gr.broadcast(np.array([str(tmp_path)], "U400"))[0]))
    if gr.my_pe() == 0:
        (shared / "quick").write_text(COMPILER)
        (shared / "quick").chmod(0o700)
        (shared / "header").write_text("right")
        (shared / "library").write_bytes(library.read_bytes())
    for name, file in {
        "GRAVEL_CXX": "quick", "GRAVEL_NVCC": "quick", "XDG_CACHE_HOME": "cache", "CALLS": "calls", "HEADER": "header",
        "LIBRARY": "library",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, str(shared / file))
    gr.barrier()
    return shared


def calls_of(folder: Path) -> int:
    """How often the compiler was called by all PEs."""
    gr.barrier()
    count = len((folder / "calls").read_text().splitlines())
    gr.barrier()
    return count


def compiled(text: str = "text", *options: str) -> Path:
    return _kernel_cache.library_of(text, "source", options, None)[0]


def test_cache(folder):
    """One PE compiles. A second use calls no compiler, unless the entry is damaged or a header has changed."""
    file = compiled()
    facts, entries = file.with_suffix(".json"), folder / "cache/gravel/kernels"
    assert file.parent == entries and entries.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o077 == 0
    assert compiled() == file and calls_of(folder) == 1
    contents = (folder / "library").read_bytes()
    for number, damage in enumerate((
        lambda: file.write_bytes(contents[:-1] + b"?"), file.unlink, lambda: file.chmod(0o722),
        lambda: (file.unlink(), file.symlink_to(folder / "library")), lambda: facts.write_text("{}"),
        lambda: facts.write_text("damaged"), facts.unlink, (folder / "header").unlink,
        lambda: (folder / "header").write_text("changed"),
    ), start=2):  # fmt: skip
        if gr.my_pe() == 0:
            damage()
            if not (folder / "header").exists():
                (folder / "header").write_text("another")
        gr.barrier()
        assert compiled() == file and file.read_bytes() == contents and not file.is_symlink()
        assert calls_of(folder) == number
    assert len({compiled(), compiled("other text"), compiled("text", "-O3")}) == 3
    assert not list(entries.glob("*.work"))


def test_errors_are_not_cached(folder):
    if gr.my_pe() == 0:
        (folder / "header").write_text("wrong")
    gr.barrier()
    for _ in range(2):
        with pytest.raises(gr.Error, match=r"source does not compile:\n.*header:1: it is wrong"):
            compiled()
        gr.barrier()
    if gr.my_pe() == 0:
        (folder / "header").write_text("right")
    gr.barrier()
    assert compiled().read_bytes() == (folder / "library").read_bytes()


def test_without_a_compiler(folder, monkeypatch):
    """Where one PE has none, all get an exception."""
    variable = "GRAVEL_NVCC" if on_gpu() else "GRAVEL_CXX"
    if gr.my_pe() == gr.n_pes() - 1:
        monkeypatch.setenv(variable, "none-such -O2")
    with pytest.raises(gr.Error, match=f"there is no compiler 'none-such' in PATH: install .* {variable}"):
        gr.Kernels(SECOND)
    if not on_gpu():
        monkeypatch.delenv(variable)
        monkeypatch.setenv("PATH", str(folder))
        with pytest.raises(gr.Error, match=r"no compiler 'c\+\+' in PATH: install g\+\+"):
            gr.Kernels(SECOND)


def test_folder_that_cannot_be_used(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "header"))
    with pytest.raises(gr.Error, match="Set XDG_CACHE_HOME"):
        compiled()


def test_sources_that_differ(folder):
    with pytest.raises(ValueError, match="of PE 0 and PE 1 differ"):
        gr.Kernels(SECOND + "//" * gr.my_pe())


def test_wrong_sources():
    for error, text, arguments in (
        (TypeError, "a text or a pathlib.Path, not int", {"source": 7}),
        (ValueError, "has no kernel", {"source": "// __global__ void f()"}),
        (ValueError, "is no name", {"source": SECOND, "kernels": ["count()"]}),
        (ValueError, "a name occurs twice", {"source": SECOND, "kernels": ["count", "count"]}),
        (TypeError, "options is a list", {"source": SECOND, "options": "-O2"}),
        (FileNotFoundError, "none.cu", {"source": Path("none.cu")}),
    ):
        with pytest.raises(error, match=text):
            gr.Kernels(**arguments)


def test_names_of_kernels():
    assert _kernels._kernels_of("""
__global__ void a(gravel_t g, std::map<int, std::pair<int, int>>* b, int (&c)[3], float d = f(1, 2), int) {}
static __global__ __launch_bounds__(f(3), 2) void e() { g<<<1, 2>>>(3); }
template <class T, int n = (1 > 0)>
__global__ void h(T t);
const char* i = "__global__ void j(); \\" __global__ void j();"; char k = '"';
/* __global__ void l(); */ int m = 1'000'000;
__global__ void __launch_bounds__(64)
n(int o);
""") == [
        ("a", ["g", "b", "c", "d", "int"], False), ("e", [], False), ("h", ["t"], True), ("n", ["o"], False),
    ]  # fmt: skip
