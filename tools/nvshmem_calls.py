#!/usr/bin/env python3
"""Counts NVSHMEM's public calls, and compares them with its headers.

test/data/nvshmem_calls.txt has the families of calls, each with its C++ type: T is a type, N a size, OP the operation
of a reduction, SCOPE block or warp. Functions that only templates name, the tiles, have no type there.

Usage: nvshmem_calls.py INCLUDE
  INCLUDE  the include folder of NVSHMEM, of which this needs nvcc: pip download nvidia-nvshmem-cu13 has one
It prints how many calls the headers declare, and how many of them Gravel's header declares with the same type, and
fails if the families are not those of the headers."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = dict((line + " ").split(" ", 1) for line in
                (ROOT / "test" / "data" / "nvshmem_calls.txt").read_text().splitlines())

# NVSHMEM's types: their names in calls, and in C++.
TYPES = {"half": "half", "bfloat16": "__nv_bfloat16", "float": "float", "double": "double", "char": "char",
         "schar": "signed char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int",
         "uint": "unsigned int", "long": "long", "ulong": "unsigned long", "longlong": "long long",
         "ulonglong": "unsigned long long", "size": "size_t", "ptrdiff": "ptrdiff_t",
         **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
# The names, by the calls that have them.
BITS = ["uint", "ulong", "ulonglong", "int32", "uint32", "int64", "uint64"]
ATOMIC = [*BITS, "int", "long", "longlong", "size", "ptrdiff"]
FLOATS = ["half", "float", "double"]
WAIT = [*ATOMIC, "short", "ushort"]
BITWISE = [*BITS, "uchar", "ushort", "int8", "int16", "uint8", "uint16", "size"]
REDUCED = [*BITWISE, *FLOATS, "bfloat16", "char", "schar", "short", "int", "long", "longlong"]


# Calls of a block alone, though their families have SCOPE in their names here.
OF_BLOCKS = {"nvshmemx_double2_maxloc_reduce_SCOPE", "nvshmemx_putmem_signal_counted_nbi_SCOPE",
             "nvshmemx_region_start_SCOPE", "nvshmemx_region_stop_SCOPE"}
# NVSHMEM's headers declare these a second time, without a root.
TWICE = {"nvshmemx_broadcastmem_warp", "nvshmemx_broadcastmem_block"}


def types_of(call):
    """The names of the types for which NVSHMEM has a call."""
    if re.search(r"atomic_(fetch_)?(and|or|xor)$", call):
        return BITS
    if call.startswith("nvshmemx_T_atomic"):
        return FLOATS
    if call.endswith(("atomic_set", "atomic_fetch", "atomic_swap")):
        return [*ATOMIC, *FLOATS]
    if "atomic" in call:
        return ATOMIC
    return WAIT if re.search(r"_T_(wait|test)", call) else list(TYPES)


def members_of(call, element=""):
    """The calls of a family: pairs of a name and the C++ type that T stands for."""
    if "_T_OP_" in call:
        for op in ("and", "or", "xor", "min", "max", "sum", "prod"):
            for name in BITWISE if op in ("and", "or", "xor") else REDUCED:
                yield from members_of(call.replace("_T_OP_", f"_{name}_{op}_"), TYPES[name])
    elif "_T_" in call:
        for name in types_of(call):
            yield from members_of(call.replace("_T_", f"_{name}_"), TYPES[name])
    elif re.search(r"(put|get)N", call):
        for size in (8, 16, 32, 64, 128):
            yield from members_of(re.sub("(put|get)N", rf"\g<1>{size}", call))
    elif call in OF_BLOCKS:
        yield call.replace("SCOPE", "block"), element
    elif call.startswith("tile_"):
        for op in ("min", "max", "sum") if "_OP_" in call else ("",):
            for scope in ("", "_warp", "_warpgroup", "_block"):
                yield call.replace("OP", op) + scope, ""
    elif call.endswith("_SCOPE"):
        for scope in ("warp", "block"):
            yield call.replace("SCOPE", scope), element
    else:
        yield call, element


def type_of(call, element):
    """The C++ type of a call of a family, without T."""
    return re.sub(r"\bT\b", element, FAMILIES[call].strip())


def assertions(but=()):
    """C++ that compiles if each call but some has the type of its family."""
    text = ["#include <type_traits>", "template <class F> using of = F;"]
    for call in FAMILIES:
        for name, element in members_of(call):
            if name in but or not FAMILIES[call].strip():
                continue
            function = f"of<{type_of(call, element)}>*"
            text.append(f"static_assert(std::is_same_v<decltype(static_cast<{function}>(&::{name})), {function}>);")
    return "\n".join(text) + "\n"


def nvcc(*arguments, source):
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "calls.cu").write_text(source)
        command = ["nvcc", "-std=c++20", "-arch=sm_100", *arguments, f"{place}/calls.cu"]
        return subprocess.run(command, capture_output=True, text=True)


INCLUDES = "#include <nvshmem.h>\n#include <nvshmemx.h>\n"


def main(include):
    theirs = [f"-I{include}", "-DNVSHMEM_CFT_HANDLES_SUPPORT"]
    text = nvcc("-E", *theirs, source=INCLUDES).stdout
    declared = set(re.findall(r"\b((?:nvshmemx?|tile)_\w+)\s*\(", re.sub(r"^#.*$", "", text, flags=re.M)))
    declared = (declared | {"nvshmem_sync"}) - {"tile_memory"}  # a macro, and no call
    known = {name for call in FAMILIES for name, _ in members_of(call)}
    for name in sorted(declared ^ known):
        print(f"{name}: " + ("in no family" if name in declared else "not in the headers"))
    wrong = nvcc("-cuda", "-o", "/dev/null", *theirs, source=INCLUDES + assertions(but=TWICE))
    print("".join(line + "\n" for line in wrong.stderr.splitlines() if "error" in line), end="")
    ours = nvcc("-cuda", "-o", "/dev/null", f"-I{ROOT}", f"-I{ROOT}/lib", f"-I{ROOT}/lib/gravel/nvshmem",
                source=INCLUDES + assertions())
    lacks = set(re.findall(r'has no "(\w+)"', ours.stderr)) | {name for name in known if name.startswith("tile_")}
    other = [line for line in ours.stderr.splitlines() if "error" in line and "has no" not in line]
    print("".join(line + "\n" for line in other if "detected" not in line), end="")
    print(f"{len(declared)} calls in {len(FAMILIES)} families; Gravel's header has {len(declared - lacks)}, not: "
          + ", ".join(sorted(lacks)))
    return 1 if declared != known or wrong.returncode else 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
