#!/usr/bin/env python3
"""Translates a CUDA program that a preprocessor has expanded into C++ for the CPU backend.

    tools/cuda_to_cpp.py [--skip FOLDER]... < expanded > translated

The input is what `g++ -E` writes, so all macros and includes are gone and a line marker names the place of each line.
No edit adds or removes a line: what the compiler reports lies where the programmer wrote it. Text of system headers and
of the folders of --skip stays as it is, but for `__global__`. There are five edits:

- kernel<<<grid, block, ...>>>(arguments): a call of gravel::cuda_on_cpu::start. NULL in the arguments becomes nullptr.
- extern __shared__ T name[]: a pointer to the block's dynamic shared memory. (The macro __shared__ has become
  `static thread_local`.)
- A kernel whose address is taken, as for cudaLaunchKernel: gravel::cuda_on_cpu::known(kernel), which remembers the
  types of its parameters.
- while (condition); waits by gravel::detail::relax: a lane of the CPU backend runs until it waits or ends.
- __global__, and __noinline__ outside of attributes.

Exit status: 0, or 1 with "FILE:LINE: error: ..." on stderr for text that cannot be translated."""

import argparse
import re
import sys

MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"([ 0-9]*)$', re.M)
TOKEN = re.compile(r'''
    (?P<space>\s+|^\#.*$)
  | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)"
            |(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<sign><<<|>>>|::|->|.)
''', re.X | re.M)
OPEN, CLOSE = "([{", ")]}"
SPACE = "::gravel::cuda_on_cpu::"
RELAX = "::gravel::detail::relax"


class untranslatable(Exception):
    """Text that cannot be translated, and the place of its token."""

    def __init__(self, why, place):
        super().__init__(why)
        self.place = place


class token:
    __slots__ = ("kind", "text", "begin", "end")

    def __init__(self, kind, text, begin, end):
        self.kind, self.text, self.begin, self.end = kind, text, begin, end


def own_parts(text, skip):
    """(begin, end) of the parts of an expanded text that the program's own files have: the file that is compiled, which
    the first marker names, and headers. A header is a system's if the marker at its beginning says so: later markers
    say it also of macros that a system's header defines."""
    foreign, parts, begin, own = {}, [], 0, True
    for marker in MARKER.finditer(text):
        if own:
            parts.append((begin, marker.start()))
        name, flags = marker[2], marker[3].split()
        if name not in foreign:
            # Names such as <command-line> and <built-in> are no files.
            foreign[name] = foreign != {} and (
                "3" in flags or name.startswith("<") or any(name.startswith(f) for f in skip))
        own, begin = not foreign[name], marker.end()
    if own:
        parts.append((begin, len(text)))
    return parts


def tokens_of(text, parts):
    found = []
    for begin, end in parts:
        for match in TOKEN.finditer(text, begin, end):
            if match.lastgroup != "space":
                # The group `mark` lies in `text`.
                kind = "text" if match.lastgroup == "mark" else match.lastgroup
                found.append(token(kind, match[0], match.start(), match.end()))
    return found


def matching(tokens, at):
    """Index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if tokens[i].kind == "sign":
            depth += tokens[i].text in OPEN
            depth -= tokens[i].text in CLOSE
            if depth == 0:
                return i
    raise untranslatable(f"'{tokens[at].text}' is not closed", tokens[at].begin)


def matching_back(tokens, at):
    """Index of the bracket that opens the one at `at`."""
    depth = 0
    for i in range(at, -1, -1):
        if tokens[i].kind == "sign":
            depth += tokens[i].text in CLOSE
            depth -= tokens[i].text in OPEN
            if depth == 0:
                return i
    raise untranslatable(f"'{tokens[at].text}' closes nothing", tokens[at].begin)


def angles_of(text):
    return (text.count("<") if text.strip("<") == "" else 0) - (text.count(">") if text.strip(">") == "" else 0)


def template_begin(tokens, at):
    """Index of the `<` that opens the template arguments that end at `at`, or None."""
    depth, i = 0, at
    while i >= 0:
        if tokens[i].kind == "sign":
            if tokens[i].text in CLOSE:
                i = matching_back(tokens, i)
            elif tokens[i].text in OPEN + ";":
                return None
            else:
                depth -= angles_of(tokens[i].text)
                if depth == 0:
                    return i
        i -= 1
    return None


def template_end(tokens, at):
    """Index behind the template arguments that begin at `at`; `at` itself if there are none."""
    if at >= len(tokens) or tokens[at].text != "<":
        return at
    depth, i = 0, at
    while i < len(tokens):
        if tokens[i].kind == "sign":
            if tokens[i].text in OPEN:
                i = matching(tokens, i)
            elif tokens[i].text in CLOSE + ";":
                return at
            else:
                depth += angles_of(tokens[i].text)
                if depth == 0:
                    return i + 1
        i += 1
    return at


def kernel_begin(tokens, launch):
    """Index of the first token of the expression in front of a `<<<`, or None if it is no kernel's."""
    i = launch - 1
    while i >= 0:
        if tokens[i].text in (")", "]"):
            i = matching_back(tokens, i)
            if tokens[i].text == "(":
                return i
            i -= 1
            continue
        if tokens[i].text == ">":
            begin = template_begin(tokens, i)
            if begin is None:
                return None
            i = begin - 1
        if i < 0 or tokens[i].kind != "name":
            return None
        # What belongs to the name, as in a::b, ::b, x.b, x->b.
        if i > 0 and tokens[i - 1].text in ("::", ".", "->"):
            before = i - 2
            if before >= 0 and (tokens[before].kind == "name" or tokens[before].text in (">", ")", "]")):
                i = before
                continue
            return i - 1
        return i
    return None


class translation:
    def __init__(self, text, skip):
        self.text = text
        self.tokens = tokens_of(text, own_parts(text, skip))
        self.edits = []  # (begin, end, replacement)
        self.kernels, self.declared = set(), set()

    def replace(self, begin, end, by):
        self.edits.append((begin, end, by))

    def insert(self, at, what):
        self.replace(at, at, what)

    def result(self):
        self.find_kernels()
        self.translate_launches()
        self.translate_mentions()
        self.translate_waits()
        self.translate_shared()
        for t in self.tokens:
            if t.text == "__noinline__":
                self.replace_noinline(t)
        # Own text has its tokens; elsewhere, in templates of Gravel's headers, there may be kernels, too.
        for match in re.finditer(r"\b__global__\b", self.text):
            self.replace(match.start(), match.end(), "")
        parts, done = [], 0
        for begin, end, by in sorted(self.edits, key=lambda e: (e[0], e[1])):
            parts += [self.text[done:begin], by]
            done = end
        return "".join(parts) + self.text[done:]

    def find_kernels(self):
        """The names of all kernels, and where they are declared."""
        tokens = self.tokens
        for at, t in enumerate(tokens):
            if t.text != "__global__":
                continue
            i = at + 1
            while i < len(tokens):
                if tokens[i].text in ("__attribute__", "alignas") or tokens[i].text == "[":
                    i = matching(tokens, i + (tokens[i].kind == "name")) + 1
                elif tokens[i].text in ("void", "static", "inline", "extern", "constexpr", "__inline__"):
                    i += 1
                else:
                    break
            if i < len(tokens) and tokens[i].kind == "name":
                self.kernels.add(tokens[i].text)
                self.declared.add(i)

    def translate_launches(self):
        tokens = self.tokens
        for at, t in enumerate(tokens):
            if t.text != "<<<":
                continue
            first = kernel_begin(tokens, at)
            if first is None:
                raise untranslatable("'<<<' does not stand behind the name of a kernel", t.begin)
            end = at + 1
            while end < len(tokens) and tokens[end].text != ">>>":
                if tokens[end].text in CLOSE + ";":
                    raise untranslatable("'<<<' has no '>>>'", t.begin)
                end = matching(tokens, end) + 1 if tokens[end].text in OPEN else end + 1
            if end + 1 >= len(tokens) or tokens[end + 1].text != "(":
                raise untranslatable("'<<< >>>' has no arguments behind it", t.begin)
            self.insert(tokens[first].begin, SPACE + "start([=](const auto&... gravel_argument) { ")
            self.replace(t.begin, t.end, "(gravel_argument...); }, " + SPACE + "shape(")
            self.replace(tokens[end].begin, tokens[end].end, "))")
            self.translate_null_arguments(end + 1)

    def translate_null_arguments(self, opening):
        """NULL alone as a kernel's argument: its type, that of an integer, would be lost on the way."""
        tokens, i = self.tokens, opening + 1
        last = matching(tokens, opening)
        while i < last:
            if tokens[i].text in OPEN:
                i = matching(tokens, i)
            elif tokens[i].text == "__null" and tokens[i - 1].text in "(," and tokens[i + 1].text in "),":
                self.replace(tokens[i].begin, tokens[i].end, "nullptr")
            i += 1

    def translate_mentions(self):
        tokens = self.tokens
        for at, t in enumerate(tokens):
            if t.text not in self.kernels or t.kind != "name" or at in self.declared or at == 0:
                continue
            behind = template_end(tokens, at + 1)
            if behind < len(tokens) and tokens[behind].text in ("<<<", "(", "::"):
                continue
            first = kernel_begin(tokens, at + 1)
            if first is None or first == 0:
                continue
            if tokens[first - 1].text == "&":
                first -= 1
            if tokens[first - 1].text not in (")", "(", ",", "=", "?", ":", "{", "return"):
                continue
            self.insert(tokens[first].begin, SPACE + "known(")
            self.insert(tokens[behind - 1].end, ")")

    def translate_waits(self):
        tokens = self.tokens
        opened, ends_do = [], set()  # whether a bracket belongs to a do; the `while`s that end one
        bare_do = False
        for at, t in enumerate(tokens):
            if t.text == "do" and at + 1 < len(tokens) and tokens[at + 1].text != "{":
                bare_do = True
            elif t.kind == "sign" and t.text in OPEN:
                opened.append(at > 0 and tokens[at - 1].text == "do")
            elif t.kind == "sign" and t.text in CLOSE and opened:
                if opened.pop():
                    ends_do.add(at + 1)
            elif t.text == "while" and at not in ends_do and at + 1 < len(tokens) and tokens[at + 1].text == "(":
                if bare_do:
                    bare_do = False
                    continue
                end = matching(tokens, at + 1)
                rest = [x.text for x in tokens[end + 1:end + 3]]
                if rest[:1] != [";"] and rest != ["{", "}"]:
                    continue
                self.replace(t.begin, tokens[at + 1].end, f"for ({RELAX} gravel_wait; ")
                self.insert(tokens[end].begin, ";")
                if rest[0] == ";":
                    self.insert(tokens[end + 1].begin, " gravel_wait.attentively()")
                else:
                    self.insert(tokens[end + 1].end, " gravel_wait.attentively(); ")

    def translate_shared(self):
        tokens = self.tokens
        for at in range(len(tokens) - 2):
            words = [t.text for t in tokens[at:at + 3]]
            if words[1:] != ["static", "thread_local"]:
                continue
            if words[0] == "static":  # static __shared__
                self.replace(tokens[at].begin, tokens[at].end, "")
            if words[0] != "extern":
                continue
            end = at + 3
            while end < len(tokens) and tokens[end].text != ";":
                end += 1
            declared = [tokens[i].text for i in range(end - 2, end)]
            if declared != ["[", "]"] or tokens[end - 3].kind != "name":
                raise untranslatable("dynamic shared memory is declared as: extern __shared__ T name[]",
                                     tokens[at].begin)
            kind, i = [], at + 3
            while i < end - 3:
                if tokens[i].text in ("__attribute__", "alignas"):
                    i = matching(tokens, i + 1) + 1
                    continue
                kind.append(tokens[i].text)
                i += 1
            kind = " ".join(kind)
            lines = self.text.count("\n", tokens[at].begin, tokens[end].end)
            self.replace(tokens[at].begin, tokens[end].end,
                         f"[[maybe_unused]] {kind}* const {tokens[end - 3].text} = "
                         f"reinterpret_cast<{kind}*>(::gravel_dynamic_shared());" + "\n" * lines)

    def replace_noinline(self, t):
        # In an attribute it is right as it stands: __attribute__((__noinline__)).
        before = self.text[:t.begin].rstrip()
        if not before.endswith(("((", ",")):
            self.replace(t.begin, t.end, "__attribute__((noinline))")


def place_of(text, at):
    """FILE:LINE of a place in an expanded text."""
    name, line, begin = "<stdin>", 1, 0
    for marker in MARKER.finditer(text, 0, at):
        name, line, begin = marker[2], int(marker[1]), marker.end() + 1
    return f"{name}:{line + text.count(chr(10), begin, at)}"


def translate(text, skip=()):
    return translation(text, skip).result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip", metavar="FOLDER", action="append", default=[], help="leave its files alone")
    text = sys.stdin.read()
    try:
        sys.stdout.write(translate(text, parser.parse_args().skip))
    except untranslatable as fault:
        sys.exit(f"{place_of(text, fault.place)}: error: {fault}")


if __name__ == "__main__":
    main()
