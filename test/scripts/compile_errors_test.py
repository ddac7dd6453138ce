"""Each mistake that the compiler finds leads to exactly one error, in one readable line. Right programs get no warnings
from Gravel's headers. The named compiler is tried, and clang++ and nvcc where they are installed.

Usage: compile_errors_test.py SOURCE_DIRECTORY COMPILER...
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, COMPILER = sys.argv[1], sys.argv[2:]
CLANG = shutil.which("clang++")
# For programs without mistakes: PTX that nobody will run, quickly.
PTX_ALONE = ["-gencode", "arch=compute_90,code=compute_90", "-Xcicc", "-O0"]
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
COMPILERS = [COMPILER] + [[path, "-ferror-limit=0"] for path in [CLANG] if path]
HEADERS = [f"-I{SOURCE}", f"-I{SOURCE}/lib"]

# A struct's body, and what is said about it.
NAME = 'static constexpr const char* name = "wrong"; '
WRONG_HANDLERS = {
    "GRAVEL_HANDLER void operator()(const gravel_t&) const {}":
        "a handler has a name: static constexpr const char* name = ",
    'const char* name = "wrong"; GRAVEL_HANDLER void operator()(const gravel_t&) const {}':
        "a handler has a name: static constexpr const char* name = ",
    NAME: "a handler has one operator(), neither overloaded nor a template: "
          "GRAVEL_HANDLER void operator()(const gravel_t& g, arguments...) const",
    NAME + "template <class T> GRAVEL_HANDLER void operator()(const gravel_t&, T) const {}":
        "a handler has one operator(), neither overloaded",
    NAME + "GRAVEL_HANDLER void operator()(const gravel_t&, int) const {} "
           "GRAVEL_HANDLER void operator()(const gravel_t&) const {}":
        "a handler has one operator(), neither overloaded",
    NAME + "GRAVEL_HANDLER int operator()(const gravel_t&) const { return 0; }": "a handler's operator() returns void",
    NAME + "GRAVEL_HANDLER void operator()(const gravel_t&, int) {}":
        "a handler's operator() is const: write const behind its parameters",
    NAME + "GRAVEL_HANDLER void operator()(int) const {}": "a handler's operator() takes a const gravel_t& first",
    NAME + "GRAVEL_HANDLER void operator()(gravel_t&, int) const {}":
        "a handler's operator() takes a const gravel_t& first",
    NAME + "GRAVEL_HANDLER void operator()() const {}": "a handler's operator() takes a const gravel_t& first",
    NAME + "GRAVEL_HANDLER void operator()(const gravel_t&, int&) const {}":
        "a handler's arguments are values or const references",
    NAME + "struct big { char c[257]; }; GRAVEL_HANDLER void operator()(const gravel_t&, big) const {}":
        "a handler takes up to 256 bytes of arguments: send an address, or several messages",
    NAME + "struct deep { deep(const deep&); int i; }; GRAVEL_HANDLER void operator()(const gravel_t&, deep) const {}":
        "a handler's arguments are copied byte by byte: use trivially copyable types",
    NAME + "using context = int; GRAVEL_HANDLER void operator()(const gravel_t&, long*) const {}":
        "takes a T* behind the handle",
    NAME + "static constexpr bool batch = true; GRAVEL_HANDLER void operator()(const gravel_t&, int) const {}":
        "const gravel_batch& (behind the context",
    NAME + "bool on_host = true; GRAVEL_HANDLER void operator()(const gravel_t&) const {}":
        "on_host and batch of a handler are static constexpr bool",
    NAME + "GRAVEL_HANDLER wrong{}(int) {{}} GRAVEL_HANDLER void operator()(const gravel_t&) const {{}}":
        "it needs a default constructor",
}
WRONG_SECTIONS = {
    "GRAVEL_HANDLER void operator()(record&) const {}":
        "the first section has a name: static constexpr const char* name = ",
    NAME: "a section has one operator(), neither overloaded nor a template",
    NAME + "template <class T> GRAVEL_HANDLER void operator()(record&, T) const {}":
        "a section has one operator(), neither overloaded",
    NAME + "GRAVEL_HANDLER void operator()(record&) {}": "a section's operator() is const",
    NAME + "GRAVEL_HANDLER void operator()(int) const {}": "a section takes 1 to 4 records, by reference",
    NAME + "GRAVEL_HANDLER void operator()(record) const {}": "a section takes 1 to 4 records, by reference",
    NAME + "GRAVEL_HANDLER void operator()(record&, int&) const {}":
        "a section's arguments are values that are copied byte by byte",
    NAME + "GRAVEL_HANDLER uint32_t& operator()(record& r) const { return r.calls; }":
        "a section answers with an integer, an enumeration",
    NAME + "struct big { char c[200]; }; GRAVEL_HANDLER void operator()(record&, big) const {}":
        "a call has up to 128 bytes",
    NAME + "GRAVEL_HANDLER void operator()(record&, int) const {} "
           "GRAVEL_HANDLER static long combine(long a, long) { return a; }":
        "combine(a, b) is static, takes and returns the argument",
    NAME + "GRAVEL_HANDLER void operator()(record&, int) const {} "
           "GRAVEL_HANDLER static int combine_by(int a) { return a; }":
        "combine_by(a) is static, takes the argument, returns a value",
    NAME + "GRAVEL_HANDLER void operator()(record&, int) const {} "
           "GRAVEL_HANDLER static int combine(int a, int) { return a; } "
           "GRAVEL_HANDLER static int combine_by(int a, int) { return a; }":
        "combine_by(a) is static, takes the argument, returns a value",
    NAME + "bool pure = true; GRAVEL_HANDLER void operator()(record&) const {}":
        "pure of a section is a static constexpr bool",
}
SECTIONS = """struct record { int64_t balance; uint32_t calls; };
struct deposit {
  static constexpr const char* name = "deposit";
  GRAVEL_HANDLER void operator()(record& r, int amount) const { r.balance += amount; }
};
struct draw { GRAVEL_HANDLER uint32_t operator()(record& r) const noexcept { return r.calls++; } };
struct elsewhere { GRAVEL_HANDLER void operator()(record&) const {} };
using bank = gravel_critical_sections<record, deposit, draw>;
"""
WRONG_SECTION_CALLS = {
    "gravel_critical_call<draw>(b, 1u, 2u);": "the section takes another number of keys or arguments",
    "gravel_critical_call<deposit>(b);": "the section takes another number of keys or arguments",
    "gravel_critical_call<deposit>(b, 1.5, 1);": "the keys of a section are whole numbers",
    "gravel_critical_call<elsewhere>(b, 1u);": "these critical sections do not have this section",
    "gravel_critical_ask<deposit>(b, nullptr, 1u, 1);": "this section answers nothing",
}
RIGHT_HANDLER = ("struct right { " + NAME +
                 "GRAVEL_HANDLER void operator()(const gravel_t&, uint32_t, const double&) const noexcept {} };\n")
KERNELS = "__global__ void kernel(gravel_t, uint64_t*, int) {}\n__global__ void refers(const int&) {}\n"
WRONG_CALLS = {
    "gravel_am<right>(g, 0, 1u);": "gravel_am: the handler takes another number of arguments",
    "gravel_am<right>(g, 0, 1u, &g);": "gravel_am: an argument cannot be converted to the handler's parameter",
    "gravel_am<declared>(g, 0);": "a handler is a struct, defined where it is named",
    "gravel_launch(kernel, 1, 32, g, words);": "gravel_launch: the kernel takes another number of arguments",
    "gravel_launch(kernel, gravel_launch_config{}, g, 7.0, 1);":
        "gravel_launch: an argument cannot be converted to the kernel's parameter",
    "gravel_launch(refers, 1, 32, 1);": "gravel_launch: a kernel's parameters are values, not references",
}
WRONG_SENDERS = {
    "__shared__ gravel_block_sender<128, 4096> sender; sender.begin(g);":
        "this gravel_block_sender does not fit the 48 KiB of __shared__ memory: use its dynamic()",
    "__shared__ gravel_block_sender<128, 1024, 7> sender; sender.begin(g);":
        "this gravel_block_sender does not fit the 48 KiB",
}
# No sender with legal parameters is so large: the check alone.
TOO_LARGE = {"gravel::detail::dynamic_shared_memory<228 * 1024>::check();":
             "this gravel_block_sender does not fit the 227 KiB of shared memory of a block: use smaller"}
TOO_MANY_PEERS = {"gravel_block_sender<128, 4096, 129>::dynamic().begin(g);": "PEERS is at most 128"}
RIGHT_SENDERS = ("__shared__ gravel_block_sender<1024> sender; sender.begin(g);",
                 "gravel_block_sender<128, 4096, 7>::dynamic().begin(g);",
                 "gravel_block_sender<1024, 4096, 16>::dynamic().begin(g);",  # the largest
                 "gravel_block_sender<1024, 4096, 128>::dynamic().begin(g);")

WRONG_MAPS = {
    "gravel::map<bytes<12>, int> wrong(5);": "a key of gravel::map is trivially copyable and has 4, 8 or 16 bytes",
    "gravel::map<int, bytes<70>> wrong(5);": "a value of gravel::map is trivially copyable and has 4 to 64 bytes",
    "gravel::map<int, bytes<12>> wrong(5); wrong.insert_or_add(nullptr, nullptr, 1);":
        "gravel::map::insert_or_add: the value is an integer of 4 or 8 bytes, float or double",
}

# The bodies of programs of worklists of items.
NUMBER = "struct number { uint32_t n; }; using item = number; "
OWNER = "GRAVEL_DEVICE int owner(const number&) const { return 0; } "
PROCESS = "GRAVEL_DEVICE void process(const gravel_item_list<wrong>&, const number&) const {} "
WRONG_ITEMS = {
    NUMBER + OWNER + PROCESS: "a program of gravel_item_worklist has a name",
    NAME + "GRAVEL_DEVICE int owner(int) const { return 0; } ": "says what its items are: using item = ",
    NAME + "struct item { char c[65]; }; ": "has 4 to 64 bytes",
    NAME + "struct item { item(const item&); item(); int i; }; ":
        "an item of gravel_item_worklist is trivially copyable",
    NAME + NUMBER + PROCESS: "says which PE owns an item: GRAVEL_DEVICE int owner(const item& x) const",
    NAME + NUMBER + "GRAVEL_DEVICE int owner(const number&) { return 0; } " + PROCESS: "says which PE owns an item",
    NAME + NUMBER + OWNER: "works on an item: GRAVEL_DEVICE void process(",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE void part(int) const {} ": "process() returns their number",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE number priority(const number& x) const { return x; } ":
        "priority of a program of gravel_item_worklist",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE uint32_t limit_after(uint32_t rank) const { return rank; } ":
        "limit_after of a program of gravel_item_worklist",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE uint64_t pack(const number&) const { return 0; } ":
        "pack and unpack of a program of gravel_item_worklist",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE bool on_send(const number&) const { return true; } ":
        "on_send of a program of gravel_item_worklist",
    NAME + NUMBER + OWNER + PROCESS + "GRAVEL_DEVICE uint64_t pack(const number&) const { return 0; } "
    "GRAVEL_DEVICE number unpack(uint64_t) const { return {}; } "
    "GRAVEL_DEVICE gravel_item_flags on_receive(const number&) const { return gravel_item_flags::take; } ":
        "on_receive of a program of gravel_item_worklist takes what travels",
}


def wrong_items():
    """Each is used as a right one is."""
    program = "#include <gravel/item_worklist.cuh>\n"
    for i, body in enumerate(WRONG_ITEMS):
        program += (f"struct items{i} {{ {body.replace('<wrong>', f'<items{i}>')} }};\n"
                    f"void work{i}(const items{i}& p) {{ gravel_init<gravel_item_delivery<items{i}>>(); "
                    f"gravel_item_worklist<items{i}> work(p, {{.capacity = 5}}); work.offer({{}}); work.run(); }}\n")
    return program, WRONG_ITEMS.values()


def kernels(bodies):
    written = (f"__global__ void kernel{i}(gravel_t g) {{ {body} }}\n" for i, body in enumerate(bodies))
    return '#include <gravel/gravel.cuh>\n' + "".join(written)


def all_mistakes():
    """A program with all mistakes, and what is to be said about them."""
    program = '#include <gravel/gravel.cuh>\n#include <gravel/critical.cuh>\n'
    program += RIGHT_HANDLER + "struct declared;\n" + KERNELS + SECTIONS
    for i, body in enumerate(WRONG_HANDLERS):
        body = body.replace("wrong{}", f"wrong{i}").replace("{{}}", "{}")
        program += (f"struct wrong{i} {{ {body} }};\nvoid f{i}(const gravel_t& g) {{ "
                    f"gravel_am<wrong{i}>(g, 0, 1); gravel_init<right, wrong{i}>(); }}\n")
    for i, call in enumerate(WRONG_CALLS):
        program += f"void call{i}(const gravel_t& g, uint64_t* words) {{ {call} (void)g, (void)words; }}\n"
    right_calls = "gravel_critical_call<draw>(b, 1u); gravel_critical_call<deposit>(b, uint64_t{1}, 1);"
    for i, call in enumerate([right_calls, *WRONG_SECTION_CALLS]):
        program += f"__global__ void kernel_of_calls{i}(bank::handle_type b) {{ {call} }}\n"
    return program, [*WRONG_HANDLERS.values(), *WRONG_CALLS.values(), *WRONG_SECTION_CALLS.values()]


def wrong_sections():
    """Apart: a compiler may look no further where classes are wrong."""
    program = '#include <gravel/critical.cuh>\n' + SECTIONS
    for i, body in enumerate(WRONG_SECTIONS):
        program += (f"struct section{i} {{ {body} }};\n"
                    f"void open{i}() {{ gravel_critical_sections<record, section{i}> sections({{.keys = 1}}); }}\n")
    return program, WRONG_SECTIONS.values()


MERGES = """#include <gravel/link.cuh>
struct pair { int a, b; };
struct copied { copied() = default; copied(const copied&); int a; };
struct alignas(32) aligned { int a[8]; };
struct right { template <class T> GRAVEL_DEVICE void operator()(T&, const T&) const {} };
struct changing { GRAVEL_DEVICE void operator()(pair&, const pair&) {} };
struct large : right { char c[513]; };
void good(gravel_router& r, pair* p) { gravel_allreduce(r, p, p, 1, right{}, {.stream = nullptr}); }
"""
WRONG_MERGES = {
    "gravel_allreduce(r, (copied*)nullptr, (copied*)nullptr, 1, right{});": "their type is trivially copyable",
    "gravel_reduce(r, (aligned*)nullptr, (aligned*)nullptr, 1, right{});": "aligned to 16 bytes at most",
    "gravel_reduce(r, (int*)nullptr, (int*)nullptr, 1, GRAVEL_MAX);": "an operation is a template argument",
    "gravel_reduce_start(r, (pair*)nullptr, (pair*)nullptr, 1, changing{});": "a merge is a function object",
    "gravel_allreduce(r.path(), (pair*)nullptr, (pair*)nullptr, 1, large{});": "trivially copyable, at most 512 bytes",
}

# Lines that are no text of an error.
WRONG_TEXTS = ['"{}"', '"{}", nullptr', '"{} {}", 1', '"{}", 1, 2', '"{0} {2}", 1, 2', '"{", 1', '"}"',
               '"{:#x}", "text"', '"{}", std::vector<int>()']


def chain_with(words):
    """A task of a chain that takes so many words of arguments."""
    types = ", ".join(["uint64_t"] * words)
    values = "".join(", uint64_t{1}" for _ in range(words))
    return ('#include <gravel/remote_task.cuh>\n'
            'struct first { static constexpr const char* name = "first"; '
            'GRAVEL_HANDLER void operator()(const gravel_task_t&, uint64_t*, const void*) const {} };\n'
            'struct next { static constexpr const char* name = "next"; '
            f'GRAVEL_HANDLER void operator()(const gravel_task_t&, uint64_t*, const void*, {types}) const {{}} }};\n'
            '__global__ void send(gravel_task_handle q, uint64_t* x, gravel_signal s) { '
            f'gravel_make_task<first>(q, 0, x, {{}}, s).then<next>(0, x, {{}}, s{values}).put(); }}\n')


def errors_in(done):
    return [line for line in done.stderr.splitlines() if re.search(r"\b(error|warning)\b.*: ", line)]


def compile_errors(program, compiler=COMPILER, *options):
    command = [*compiler, "-std=c++20", "-fsyntax-only", *HEADERS, *options, "-x", "c++", "-"]
    return errors_in(subprocess.run(command, input=program, capture_output=True, text=True, timeout=280))


def nvcc_errors(program, *options):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "program.cu"
        source.write_text(program)
        command = [NVCC, "-std=c++20", *HEADERS, *options, "-c", str(source), "-o", str(source.with_suffix(".o"))]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)
        found = errors_in(done)
        return found if found or done.returncode == 0 else [done.stderr]


def all_libraries():
    """A program may include all public headers together."""
    return "".join(f"#include <gravel/{path.name}>\n" for path in sorted(pathlib.Path(SOURCE).glob("lib/gravel/*.cuh")))


class CompileErrors(unittest.TestCase):
    def assert_reported(self, errors, reasons):
        """One line for each."""
        left = list(reasons)
        for error in errors:
            said = next((reason for reason in left if reason in error.replace('\\"', '"')), None)
            self.assertIsNotNone(said, error)
            left.remove(said)
        self.assertEqual(left, [])

    def test_mistakes(self):
        for program, reasons in (all_mistakes(), wrong_sections(), wrong_items()):
            for compiler in COMPILERS:
                with self.subTest(compiler=compiler):
                    self.assert_reported(compile_errors(program, compiler), reasons)

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_mistakes_with_nvcc(self):
        for program, reasons in (all_mistakes(), wrong_sections(), wrong_items()):
            self.assert_reported(nvcc_errors(program, "-arch=sm_90"), reasons)

    def test_block_senders(self):
        """Both backends refuse what does not fit on a GPU."""
        tried = [lambda program, compiler=compiler: compile_errors(program, compiler) for compiler in COMPILERS]
        for compile_it in tried + ([lambda program: nvcc_errors(program, "-arch=sm_90")] if NVCC else []):
            for wrong in WRONG_SENDERS, TOO_LARGE, TOO_MANY_PEERS:
                self.assert_reported(compile_it(kernels(wrong)), wrong.values())
            self.assert_reported(compile_it(kernels(RIGHT_SENDERS)), [])

    def test_maps(self):
        program = "#include <gravel/map.cuh>\ntemplate <int N> struct bytes { char c[N]; };\n"
        program += "".join(f"void f{i}() {{ {wrong} }}\n" for i, wrong in enumerate(WRONG_MAPS))
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                self.assert_reported(compile_errors(program, compiler), WRONG_MAPS.values())

    def test_merges(self):
        program = MERGES
        program += "".join(f"void f{i}(gravel_router& r) {{ {wrong} }}\n" for i, wrong in enumerate(WRONG_MERGES))
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                self.assert_reported(compile_errors(program, compiler), WRONG_MERGES.values())

    def test_chains(self):
        """The most words of arguments, and one more."""
        for compiler in COMPILERS:
            self.assert_reported(compile_errors(chain_with(7), compiler), [])
            self.assert_reported(compile_errors(chain_with(8), compiler),
                                 ["then: a task of a chain takes up to 7 words of arguments"])

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_handler_for_the_host_alone(self):
        program = ('#include <gravel/gravel.cuh>\nstruct wrong { ' + NAME +
                   "void operator()(const gravel_t&, int) const {} };\nvoid f() { gravel_init<wrong>(); }\n")
        self.assert_reported(nvcc_errors(program, "-arch=sm_90"), ["write_GRAVEL_HANDLER_before_it"])

    def test_texts_of_errors(self):
        program = '#include <vector>\n#include "lib/base/error.hpp"\nvoid f() { gravel::detail::fail(%s); }\n'
        for command in COMPILERS:
            self.assertEqual(compile_errors(program % '"{} {:#x}, {{}}", 1, 2', command), [])
            for text in WRONG_TEXTS:
                with self.subTest(text=text, compiler=command[0]):
                    self.assertNotEqual(compile_errors(program % text, command), [])

    def test_no_warnings(self):
        """The program that uses the whole interface, and others: as strict users compile."""
        strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
        for compiler in COMPILERS:
            for name in ["operations_job.cu", "am_job.cu", "block_sender_job.cu", "critical_job.cu"]:
                with self.subTest(compiler=compiler, program=name):
                    program = (pathlib.Path(SOURCE) / "test" / "jobs" / name).read_text()
                    self.assertEqual(compile_errors(program, compiler, *strict), [])

    def test_all_libraries_together(self):
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler):
                warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
                self.assertEqual(compile_errors(all_libraries(), compiler, *warnings), [])
        if NVCC:
            self.assertEqual(nvcc_errors(all_libraries(), *PTX_ALONE, "-Xcompiler", "-Wall,-Wextra,-Wshadow"), [])

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_no_warnings_of_nvcc(self):
        # Without -Wpedantic, which refuses the line directives of all that nvcc hands to g++.
        program = (pathlib.Path(SOURCE) / "test" / "jobs" / "operations_job.cu").read_text()
        self.assertEqual(nvcc_errors(program, *PTX_ALONE, "-Xcompiler", "-Wall,-Wextra,-Wshadow"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
