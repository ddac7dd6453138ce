"""The search for hard statements and long lines (tools/statements.py, tools/format --check) finds planted ones of each
kind and leaves legal code alone.
Usage: statements_test.py"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
from sources import scripts, sources  # noqa: E402
from statements import faults_in, long_lines  # noqa: E402

COMMA = "comma statement"
RETURN = "return of a comma expression"
OPERATOR = "comma operator"
VOID = "void cast in a comma list"
NESTED = "conditional operator within another"

# Statements of a function's body, and what is wrong with them.
REFUSED = [
    ("a = 1, b = 2;", COMMA),
    ("a(), b();", COMMA),
    ("++a, --b;", COMMA),
    ("*a = 1, *b = 2;", COMMA),
    ("a[i] = 1, b[i] = 2;", COMMA),
    ("x.a<int>(1), x.b(2);", COMMA),
    ("(void)a, (void)b;", COMMA),
    ("if (x) a(), b();", COMMA),
    ("if (x) { y(); } else a(), b();", COMMA),
    ("else_if: a(), b();", COMMA),
    ("for (int i = 0; i < 3; ++i) a(), b();", COMMA),
    ("for (int i = 0, j = 0; i < 3; ++i, ++j)\n  if (x) a(),\n      b();", COMMA),
    ("GRAVEL_UNROLL\nfor (int i = 0; i < 3; ++i) a(), b();", COMMA),
    ("while (x) a(), b();", COMMA),
    ("do a(), b(); while (x);", COMMA),
    ("switch (x) { case 1: a(), b(); break; }", COMMA),
    ("switch (x) { case 1: break; default: a(), b(); }", COMMA),
    ("call([&] { a(), b(); }, 3);", COMMA),
    ("auto f = [&, c = &d](int e) mutable -> int { a(), b(); return e; };", COMMA),
    ("[[likely]] a(), b();", COMMA),
    ("int c = 1'000; a = R\"x(;\")x\", b = ',';", COMMA),
    ("return a(), b;", RETURN),
    ("if (x) return a = 1, b;", RETURN),
    ("return (void)a, (void)b, nullptr;", RETURN),
    ("co_return a(), b;", "co_return of a comma expression"),
    ("return f(a < b, c), d > e;", RETURN),
    ("x = (a(), b);", OPERATOR),
    ("return (a(), b);", OPERATOR),
    ("if (a(), b) c();", OPERATOR),
    ("while (a && (b(), c)) d();", OPERATOR),
    ("((a = f(xs), b += a), ...);", OPERATOR),
    ("if (int c = d; a(), c) e();", OPERATOR),
    ("(void(f(xs)), ...);", VOID),
    ("((void)xs, ...);", VOID),
    ("int unused[] = {(void(f(xs)), 0)...};", VOID),
    ("x = a ? b : c ? d : e;", NESTED),
    ("x = a ? b ? c : d : e;", NESTED),
    ("x = a ? (b ? c : d) : e;", NESTED),
    ("x = a ? f(b ? c : d) : e;", NESTED),
    ("x = (a ? b : c) ? d : e;", NESTED),
    ("x = a && f(b ? c : d) == 1 ? e : g;", NESTED),
    ("f(1, a ? b : c ? d : e);", NESTED),
    ("return a ? b\n       : c ? d\n           : e;", NESTED),
    ("case_of(x); switch (x) { case a ? 1 : b ? 2 : 3: break; }", NESTED),
]

# Bodies in which nothing is wrong.
ALLOWED = [
    "int a = 1, b = 2;",
    "const T *a = nullptr, &b = *c;",
    "std::map<int, T>::iterator a = m.begin(), b = m.end();",
    "unsigned long long a, b;",
    "auto [a, b] = f(1, 2);",
    "thing a{1, 2}, b(3, 4);",
    "decltype(x) a = x, b = x;",
    "alignas(16) int a, b;",
    "[[maybe_unused]] uint32_t a = 1, b = 2;",
    "__shared__ uint32_t a[32], b[32];",
    "const auto one = [&](int a, int b) { return a + b; }, two = one;",
    "struct pair { int a, b; } p;",
    "struct bits { uint32_t a : 3, b : 4; };",
    "struct of_both : one, two { of_both() : one(1), two{2} {} int a, b; };",
    "enum class color { red, green, blue };",
    "using a::b, a::c;",
    "f(a, b);",
    "f<a, b>(c, d);",
    "x = f<a, b>{c, d};",
    "x = {a, b};",
    "return {a, b};",
    "return f<a, b>(c, d);",
    "for (int i = 0, j = 1; i < j; ++i, ++j) f(i, j);",
    "for (i = 0, j = 1; i < j; ++i, ++j) f(i, j);",
    "for (const auto& [a, b] : c) f(a, b);",
    "if (int a = 1, b = 2; a < b) f(a, b);",
    "call([a, &b](int c, int d) { f(c, d); }, 3);",
    "kernel<int, 3><<<blocks, threads, 0, stream>>>(a, b);",
    "std::vector<std::vector<std::pair<int, int>>> a(b, c);",
    "(f(xs), ...);",
    "((a += f(xs, 1)), ...);",
    "(..., f(xs));",
    "(void)a;",
    "(void)f(a, b);",
    "x = a ? b : c;",
    "x = f(a ? b : c, d ? e : g);",
    "x = (a ? b : c) + (d ? e : g);",
    "x[a ? 1 : 2] = b ? c : d;",
    "a ? b() : c();",
    "switch (x) { case 1: return a ? b : c; default: return d ? e : f; }",
    "x = a ? f([&] { return b ? c : d; }) : e;",
    "for (auto a : b ? c : d) f(a);",
    "const char* s = \"a = 1, b = 2; c ? d : e ? f : g\";  // a(), b(); c ? d : e ? f : g",
    "/* a(), b(); */ char c = ','; f(';', \"\\\"\", a);",
    "asm volatile(\"mov %0, %1;\" : \"=r\"(a), \"=r\"(b) : \"r\"(c), \"r\"(d));",
    "struct __attribute__((packed, aligned(4))) half { int a; };",
    "bool operator()(int a, int b); out& operator<<(out& a, int b); bool operator,(int a, int b);",
]

# Whole sources, and the lines with faults.
SOURCES = [
    ("#define X(a, b) \\\n  f(a); \\\n  g(), b();\nint x;\n", [3]),
    ("#define NAME(name, text, ...) text,\n#define TWO(a, b) a, b\n", []),
    ("template <class A, class B>\nvoid f(A a, B b) requires(sizeof(A) > 1) {\n  a(), b();\n}\n", [3]),
    ("namespace a {\nclass b : public c, d {\n  b() : e(1), f(2) {}\n  int e, f;\n"
     "  void g() { e = 1, f = 2; }\n};\n}\n", [5]),
    ("template <>\nstruct a<b, c> {};\nextern template void f<a, b>(c, d);\ntemplate void g<a, b>(c);\n", []),
    ("#if A\nint f() { return a, b; }\n#else\nint f() { return a; }\n#endif\n", [2]),
    ("// " + "x" * 117 + "\n", []),
    ("int a;\n// " + "x" * 118 + "\n", [2]),
    ("const char* a = \"" + "x" * 110 + "\";\n", [1]),
]


class Statements(unittest.TestCase):
    def test_refused(self):
        for body, message in REFUSED:
            with self.subTest(body):
                self.assertEqual({found for _, found in faults_in(f"void f() {{\n{body}\n}}\n")}, {message})

    def test_allowed(self):
        for body in ALLOWED:
            with self.subTest(body):
                self.assertEqual(faults_in(f"void f() {{\n{body}\n}}\n"), [])

    def test_sources(self):
        for text, lines in SOURCES:
            with self.subTest(text):
                self.assertEqual([line for line, _ in faults_in(text)], lines)

    def test_long_lines(self):
        url = "https://example.org/" + "x" * 120
        for text, lines in (("a = 1\n" + "x" * 121, [2]), ("x" * 120, []), ("é" * 120, []), (f"# {url}\n", []),
                            (f'    "{url}",\n', []), (f"# See {url}\n", [1]), (f"{url} {url}\n", [1])):
            with self.subTest(text):
                self.assertEqual([line for line, _ in long_lines(text)], lines)

    def test_long_lines_of_scripts(self):
        """tools/format --check finds them in each kind of file that this tree has."""
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("a.py", ""), ("a.sh", ""), ("meson.build", ""), ("tool", "#!/bin/sh\n"), ("a.cu", "")):
                for size, status in ((121, 1), (120, 0)):
                    file = Path(folder) / name
                    file.write_text(begin + ("// " if name == "a.cu" else "# ").ljust(size, "x") + "\n")
                    with self.subTest(name, size=size):
                        done = subprocess.run([sys.executable, ROOT / "tools" / "format", "--check", file],
                                              capture_output=True, text=True, check=False)
                        self.assertIn(done.returncode, (status, status or 77), done.stdout + done.stderr)
                        self.assertEqual("121 columns, 120 allowed" in done.stdout, size > 120, done.stdout)

    def test_files_of_this_tree(self):
        self.assertIn("tools/statements.py", scripts())
        self.assertIn("tools/format", scripts())
        self.assertIn("meson.build", scripts())
        self.assertIn("test/scripts/install_test.sh", scripts())
        self.assertIn("device/put.cuh", sources())
        self.assertFalse(set(scripts()) & set(sources()))
        self.assertFalse([name for name in scripts() if name.startswith(("docs/", "bench/results/"))])

    def test_lines(self):
        self.assertEqual(faults_in("void f() {\n  /* a\n  b */ g();\n\n  a(), b();\n}\n"), [(5, COMMA)])


if __name__ == "__main__":
    unittest.main()
