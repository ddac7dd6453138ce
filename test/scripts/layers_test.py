"""The layers of the source tree: what files of each folder may include, that what installed headers include is
installed, that programs under examples/ do not open Gravel's namespaces, that tests see Catch2 through
test/support/catch.hpp alone, that functions whose races are suppressed exist by that name, and that two parts of the
tree do not use one label of a synchronization, such as [P1], for two things. Usage: layers_test.py"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
from installed_headers import includes_in, installed_headers  # noqa: E402
from sources import sources  # noqa: E402

# Folder -> the folders whose headers its files may include, its own apart. The longest folder that fits counts.
LAYERS = {
    "lib/base": [],
    "device": ["lib/base"],
    "device/cpu": ["lib/base", "device"],
    "transport": ["lib/base"],
    "host/node": ["lib/base"],
    "host/pe": ["lib/base", "device", "transport", "host/node"],
    "host/aggregator": ["lib/base", "transport", "host/node"],
    "host/info": ["lib/base", "transport", "host/node"],
    "host/top": ["lib/base", "host/node"],
    # Headers for mapped memory and kernels that run alone, beside the core.
    "host": ["lib/base", "device", "host/node", "host/pe", "lib/gravel"],
    # Headers that programs include; they include all the others.
    "lib/gravel": ["lib", "device", "host"],
    "lib/graph": ["lib/base"],
    "lib/reads": ["lib/base", "device", "host", "lib/graph", "lib/table", "lib/gravel"],
    "lib/link": ["lib/base", "device", "host", "lib/gravel"],
    "lib/channel": ["lib/base", "device", "host", "lib/gravel"],
    "lib/taskgraph": ["lib/base", "device", "host", "lib/channel", "lib/gravel"],
    "lib/critical": ["lib/base", "device", "host", "lib/gravel"],
    "lib/worklist": ["lib/base", "device", "host", "lib/graph", "lib/channel", "lib/gravel"],
    "lib/remote_task": ["lib/base", "device", "host", "lib/channel", "lib/gravel"],
    "lib/allreduce": ["lib/base", "device", "host", "lib/gravel"],
    "lib/table": ["lib/base", "device", "host", "lib/gravel"],
    # Built against an installation, so it sees what an installation has.
    "lib/python": ["lib/gravel"],
    # Teaching programs see what an installation has.
    "examples": ["lib/gravel"],
    "examples/common": ["lib", "device", "host"],
    # An application may compare itself with its rivals.
    **{f"examples/{folder}": ["lib", "device", "host", "examples/common", "bench/rivals"]
       for folder in ("allreduce", "applications", "critical", "link", "remote_task", "table", "taskgraph",
                      "worklists")},
    "bench/applications": ["lib", "device", "host", "examples/common", "bench/rivals"],
    "bench/rivals": ["lib", "device", "host", "examples"],
}
# Files that may choose between the two SIMT backends.
EXCEPTIONS = {
    ("device/simt.hpp", "device/cpu/simt_cpu.hpp"),
    ("device/block_sender.cuh", "device/cpu/block_sender_cpu.hpp"),
    ("host/pe/gravel.cpp", "lib/gravel/gravel.hpp"),  # which it implements
}
# Labels whose two ends lie in different parts (part_of); any other label belongs to one part.
LABELS_OF_TWO_PARTS = {"K3": {"lib/channel", "lib/taskgraph"}, "K4": {"lib/channel", "lib/taskgraph"},
                       "V2": {"core", "lib/remote_task"}, "V3": {"core", "lib/remote_task"}}
# Outside headers that two-sided code must not need.
FOREIGN = {"lib/base": r"cuda|ucp/|uct/|ucs/|hwloc", "host/node": r"cuda|ucp/|uct/|ucs/|hwloc",
           "host/pe": r"ucp/|uct/|ucs/|hwloc", "host/aggregator": r"cuda"}


def layer_of(name):
    """The layer that a file or a header belongs to; None: none of these."""
    fitting = [layer for layer in LAYERS if name.startswith(layer + "/")]
    return max(fitting, key=len, default=None)


def faults_in(name, text):
    layer = layer_of(name)
    if layer is None:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not (found := re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)):
            continue
        kind, header = found.groups()
        if name.startswith("lib/python/") and "/" not in header:
            continue  # a project of its own, whose files name each other
        if kind == "<" and header.startswith("gravel/"):
            kind, header = '"', "lib/" + header
        if kind == "<":
            if layer in FOREIGN and re.match(FOREIGN[layer], header):
                yield f"{name}:{number}: <{header}> does not belong into {layer}"
            continue
        other = layer_of(header)
        if other is None:
            yield f"{name}:{number}: \"{header}\" is in no layer; includes name their layer, from the root"
        elif other != layer and other not in LAYERS[layer] and other.split("/")[0] not in LAYERS[layer]:
            if (name, header) not in EXCEPTIONS:
                yield f"{name}:{number}: {layer} must not include \"{header}\""


def not_installed(headers, text_of):
    """Headers of this tree that installed headers include, and that are not installed with them."""
    for name in sorted(headers):
        for header in includes_in(text_of(name)):
            if header not in headers and layer_of(header):
                yield f"tools/installed_headers.py: {name} is installed, \"{header}\", which it includes, is not"


def opened_namespaces(name, text):
    """Directives of a program under examples/ that open Gravel's namespaces: it uses names one by one, so that a reader
    sees which of them are public."""
    if not name.startswith("examples/"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.search(r"\busing\s+namespace\s+(::)?gravel\b[\w:]*", line):
            yield f"{name}:{number}: {found[0]}: name what is used: using gravel::x"


def catch_names(name, text):
    """Names that Catch2 2 and 3 do not share: those of its namespace, its headers, its settings. Macros are the same in
    both."""
    if name in ("test/support/catch.hpp", "test/support/main.cpp"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        names = r"\bCatch::\w*|\bnamespace\s+Catch\b|\bcatch2/[\w.]*|\bCATCH_\w+|\bANON_TEST_CASE\b"
        if found := re.search(names, line):
            yield (f"{name}:{number}: {found[0]} is not the same in Catch2 2 and 3: "
                   "use what test/support/catch.hpp has, or add it there")


def hidden_variables(name, text):
    """Variables of an installed header that each program compiled with -fvisibility=hidden would have for itself,
    beside those of libgravel."""
    for number, line in enumerate(text.splitlines(), 1):
        defines = re.match(r"\s*(inline|static|constinit|thread_local|extern)\b[^()]*(=|;|\{[^()]*\};)", line)
        if defines and not re.search(r"\bconst(expr|eval)?\b|^\s*static_assert", line):
            yield f"{name}:{number}: a variable that programs and libgravel share begins with GRAVEL_API"


def unknown_functions(suppressions, texts):
    """Suppressed races of functions that no source has, or that name a namespace: after a renaming they would suppress
    nothing."""
    for line in suppressions.splitlines():
        if line.startswith("race:"):
            name = line.removeprefix("race:")
            last = re.escape(name.split("::")[-1].rstrip("<"))
            if "gravel::" in name or not any(re.search(last + r"\b", text) for text in texts):
                yield f"test/support/races.supp: {name} is no function's name, without namespace"


def part_of(name):
    """The part of the tree that has labels of its own: a library, or the core."""
    library = re.match(r"lib/(?!base/|gravel/)\w+", name)
    return library[0] if library else "core"


def ambiguous_labels(texts):
    """Labels of synchronizations that several parts of the tree use. `texts`: by the name of the file."""
    parts = {}
    for name, text in texts.items():
        for label in re.findall(r"\[([A-Z]\d+)\]", text):
            parts.setdefault(label, set()).add(part_of(name))
    for label, found in sorted(parts.items()):
        if len(found) > 1 and found != LABELS_OF_TWO_PARTS.get(label):
            yield f"[{label}] is a label in {', '.join(sorted(found))}: labels are unique, take another one"


def main():
    # It does find what it is for.
    assert list(faults_in("device/put.cuh", '#include "host/pe/runtime.hpp"')), "device may not include host"
    assert list(faults_in("host/aggregator/plane.hpp", '#include "host/pe/runtime.hpp"')), "the aggregator is no PE"
    assert list(faults_in("lib/base/row.hpp", "#include <cuda_runtime.h>")), "lib/base has no CUDA"
    assert not list(faults_in("host/pe/backend.hpp", '#include "device/handle.cuh"'))
    assert list(not_installed({"device/put.cuh"}, lambda name: '#include "device/send.cuh"')), "it includes another"
    assert not list(not_installed({"device/put.cuh", "device/send.cuh"}, lambda name: '#include "device/send.cuh"'))
    assert list(opened_namespaces("examples/applications/gups.cu", "using namespace gravel::detail;"))
    assert list(opened_namespaces("examples/common/facts.hpp", "namespace app { using namespace gravel; }"))
    assert not list(opened_namespaces("examples/put.cu", "using gravel::scope;\nusing namespace app;"))
    assert not list(opened_namespaces("bench/perf/perf.cu", "using namespace gravel::detail;"))
    for line in ("Catch::Contains(text)", "using namespace Catch;", "#include <catch2/catch.hpp>",
                 "#define CATCH_CONFIG_MAIN"):
        assert list(catch_names("test/unit/critical_test.cpp", line)), line
    harmless = 'catch (...) { CHECK_THROWS_WITH(f(), contains_text("a")); }'
    assert not list(catch_names("test/unit/critical_test.cpp", harmless))
    for variable in ("inline constinit thread_local uint3 threadIdx{}, blockIdx{};",
                     "  static inline uint64_t taken_ = 0;", "extern int job;"):
        assert list(hidden_variables("device/simt.hpp", variable))
        assert not list(hidden_variables("device/simt.hpp", "GRAVEL_API " + variable))
    assert not list(unknown_functions("race:f\nrace:g<", ["void f() { g<1>(); }"]))
    assert len(list(unknown_functions("race:gravel::f\nrace:h", ["void f() {}"]))) == 2
    assert list(ambiguous_labels({"lib/channel/slots.hpp": "// [K1]", "lib/critical/table.cuh": "// [K1]"}))
    assert list(ambiguous_labels({"device/am.cuh": "// [X1]", "lib/worklist/fused.cuh": "// [X1]"}))
    assert not list(ambiguous_labels({"device/settle.cuh": "[S1]", "host/pe/a.hpp": "[S1]", "lib/link/a.hpp": "[L2]"}))
    names = sources()
    assert len(names) > 200, f"only {len(names)} source files found"
    faults = [fault for name in names for fault in faults_in(name, (ROOT / name).read_text())]
    faults += [fault for name in names for fault in opened_namespaces(name, (ROOT / name).read_text())]
    faults += [fault for name in names for fault in catch_names(name, (ROOT / name).read_text())]
    texts = {name: (ROOT / name).read_text() for name in names
             if name.startswith(("device/", "lib/", "host/", "transport/"))}
    faults += unknown_functions((ROOT / "test/support/races.supp").read_text(), texts.values())
    faults += ambiguous_labels(texts)
    installed = installed_headers()
    assert len(installed) > 100, f"only {len(installed)} installed headers found"
    faults += not_installed(installed, lambda name: (ROOT / name).read_text())
    faults += [fault for name in sorted(installed) for fault in hidden_variables(name, (ROOT / name).read_text())]
    print(*faults, sep="\n")
    print(f"{len(names)} files, {len(installed)} of them installed, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
