#!/usr/bin/env python3
"""Compiles programs in CUDA's style for the CPU backend: what gravel-c++ --cuda and --nvshmem run.

    cuda_compiler.py --name NAME --compiler 'c++' --include FOLDER... --libdir FOLDER [--show] -- OPTIONS FILES

OPTIONS are the compiler's, and nvcc's: what has no meaning without a GPU is left out, with a note. The compiler expands
each .cu file, tools/cuda_to_cpp.py translates it, and the compiler compiles the result."""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from cuda_to_cpp import place_of, translate, untranslatable  # noqa: E402

# Options of nvcc and of NVSHMEM's libraries that have no meaning here: alone, and with a value behind them.
LEFT_OUT = re.compile(
    r"-(-gpu-architecture|arch|gencode|-generate-code|code|-gpu-code|rdc|-relocatable-device-code|cudart|-cudart"
    r"|-default-stream|maxrregcount|-maxrregcount|Xptxas|-ptxas-options|Xnvlink|t|-threads|diag-suppress|-diag-suppress"
    r"|Xcudafe|-nvlink-options)=.*"
    r"|-lineinfo|--generate-line-info|-G|--device-debug|--?expt-\S*|--?extended-lambda|--?use_fast_math|-res-usage"
    r"|-dlto|--resource-usage|--?forward-unknown-\S*|-Xfatbin=.*|-prec-\S*|-ftz=.*|-fmad=.*|--fmad=.*"
    r"|-l(nvshmem\S*|cuda|cudart\S*|cudadevrt|nvidia-ml|nvml)|(.*/)?libnvshmem\S*\.(a|so[.\d]*)|-t\d+")
LEFT_OUT_WITH_VALUE = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-rdc",
                       "--relocatable-device-code", "-cudart", "--cudart", "-Xptxas", "--ptxas-options", "-Xnvlink",
                       "-maxrregcount", "--maxrregcount", "--default-stream", "-t", "--threads", "-Xcudafe",
                       "--diag-suppress", "-diag-suppress", "-Xfatbin"}
WITH_VALUE = {"-o", "-I", "-L", "-l", "-D", "-U", "-T", "-u", "-z", "-MF", "-MT", "-MQ", "-include", "-imacros",
              "-isystem", "-iquote", "-idirafter", "--sysroot", "-Xlinker", "-Xpreprocessor", "-Xassembler", "--param"}
# What the compiler says of a name that it does not know.
UNKNOWN = re.compile(r"[‘'](cuda\w+|cu[A-Z]\w+|__\w+)[’'](?: was not declared| does not name| has not been)")


class command_line:
    """The options of a command, sorted by what they are for."""

    def __init__(self, arguments):
        self.standard, self.compiler, self.output = "-std=c++20", None, None
        self.left_out, self.rest, self.depends = [], [], []
        self.links = self.compiles = True
        left = iter(arguments)
        language = None
        for a in left:
            if a in ("-std", "--std"):
                a = f"-std={next(left, '')}"
            if a in ("--compiler-options", "-Xcompiler", "-ccbin", "--compiler-bindir"):
                a = f"{a}={next(left, '')}"
            name, _, value = a.partition("=")
            if name in ("-Xcompiler", "--compiler-options"):
                self.rest += [("option", v) for part in shlex.split(value) for v in part.split(",")]
            elif name in ("-ccbin", "--compiler-bindir"):
                self.compiler = value
            elif name in ("-Xlinker", "--linker-options") and value:
                for part in value.split(","):
                    self.rest += [("link", "-Xlinker"), ("link", part)]
            elif name in ("-std", "--std"):
                if re.search(r"(20|2a|23|2b|26|2c)$", value):
                    self.standard = f"-std={value}"
                else:
                    self.left_out.append(a)
            elif LEFT_OUT.fullmatch(a):
                self.left_out.append(a)
            elif a in LEFT_OUT_WITH_VALUE:
                self.left_out.append(f"{a} {next(left, '')}".strip())
            elif a in ("-c", "-dc", "--compile", "--device-c"):
                self.links = False
            elif a in ("-E", "-M", "-MM", "--preprocess"):
                self.links = self.compiles = False
                self.rest.append(("option", "-E" if a == "--preprocess" else a))
            elif a == "-x" or (a.startswith("-x") and len(a) > 2):
                language = next(left, "") if a == "-x" else a[2:]
                language = {"none": None}.get(language, language)
            elif a in ("-o", "--output-file"):
                self.output = next(left, "")
            elif a in ("-MF", "-MT", "-MQ"):
                self.depends += [a, next(left, "")]
            elif a in ("-MD", "-MMD", "-MP"):
                self.depends.append(a)
            elif a in WITH_VALUE:
                kind = "link" if a in ("-L", "-l", "-T", "-u", "-z", "-Xlinker") else "option"
                self.rest += [(kind, a), (kind, next(left, ""))]
            elif a.startswith(("-L", "-l", "-Wl,", "-shared", "-static")):
                self.rest.append(("link", a))
            elif a.startswith("-"):
                self.rest.append(("option", a))
            else:
                is_cuda = a.endswith(".cu") if language is None else language in ("cu", "c++")
                self.rest.append(("cuda" if is_cuda else "file", a))

    def texts(self, *kinds):
        return [text for kind, text in self.rest if kind in kinds]


class compiler:
    def __init__(self, how, line):
        self.name, self.shows = how.name, how.show
        self.command = shlex.split(line.compiler or how.compiler)
        self.skip = tuple(f.rstrip("/") + "/" for f in how.include)
        self.options = [line.standard, "-DGRAVEL_CUDA_ON_CPU=1", *(f"-I{f}" for f in how.include)]

    def run(self, arguments, **more):
        command = self.command + arguments
        if self.shows:
            print(shlex.join(command))
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.run(command, text=True, **more)

    def expand(self, line, source, folder, number):
        """Expands and translates a file. Returns the translated file."""
        options = self.options + line.texts("option") + self.dependencies(line, source)
        done = self.run(["-E", "-DGRAVEL_CUDA_TRANSLATES=1", "-include", "cuda.h", "-x", "c++", *options, source],
                        stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(done.returncode)
        result = Path(folder) / str(number) / (Path(source).stem + ".ii")
        result.parent.mkdir()
        if not self.shows:
            try:
                result.write_text(translate(done.stdout, self.skip))
            except untranslatable as fault:
                sys.exit(f"{place_of(done.stdout, fault.place)}: error: {fault}")
        return str(result)

    @staticmethod
    def dependencies(line, source):
        """The options for the list of dependencies, which the expansion writes: with the names that it would have."""
        if not line.depends:
            return []
        target = line.output if line.output and not line.links else Path(source).stem + ".o"
        found = list(line.depends)
        if "-MF" not in found:
            found += ["-MF", str(Path(target).with_suffix(".d"))]
        if "-MT" not in found and "-MQ" not in found:
            found += ["-MT", target]
        return found

    def compile(self, arguments):
        colour = ["-fdiagnostics-color"] if sys.stderr.isatty() else []
        done = self.run(colour + arguments, stderr=subprocess.PIPE)
        sys.stderr.write(done.stderr)
        for name in sorted(set(UNKNOWN.findall(re.sub("\x1b\\[[\\d;]*[mK]", "", done.stderr)))):
            print(f"{self.name}: note: {name}: Gravel's CPU backend has no such call of CUDA; what it has is in "
                  "gravel/cuda_on_cpu/*.h", file=sys.stderr)
        return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="gravel-c++", help="the program that notes name")
    parser.add_argument("--compiler", default="c++", help="the compiler for C++, with options")
    parser.add_argument("--include", action="append", default=[], help="a folder of Gravel's headers")
    parser.add_argument("--libdir", help="where libgravel is")
    parser.add_argument("--libs", default="-lgravel -lpthread", help="Gravel's libraries")
    parser.add_argument("--show", action="store_true", help="print the commands instead of running them")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    how = parser.parse_args(sys.argv[1:split])
    line = command_line(sys.argv[split + 1:])
    if line.left_out:
        print(f"{how.name}: note: not needed, left out: {' '.join(line.left_out)}", file=sys.stderr)
    cxx = compiler(how, line)
    sources = line.texts("cuda")
    output = ["-o", line.output] if line.output is not None else []
    if not line.compiles:
        include = ["-include", "cuda.h", "-x", "c++"] if sources else []
        sys.exit(cxx.run([*include, *cxx.options, *line.texts("option", "cuda", "file"), *line.depends,
                          *output]).returncode)
    if output and not line.links and len(sources) + len(line.texts("file")) > 1:
        sys.exit(f"{how.name}: -o and -c with several files: compile them one by one")
    with tempfile.TemporaryDirectory(prefix="gravel-") as folder:
        arguments, number = [], 0
        for kind, text in line.rest:
            if kind == "cuda":
                arguments.append(cxx.expand(line, text, folder, number))
                number += 1
            elif kind != "link" or line.links:
                arguments.append(text)
        if line.depends and not sources:
            arguments += line.depends
        if line.links and (sources or line.texts("file")):
            run_path = [f"-L{how.libdir}", "-Xlinker", "-rpath", "-Xlinker", how.libdir] if how.libdir else []
            arguments += [*run_path, *shlex.split(how.libs)]
        elif not line.links:
            arguments.append("-c")
        sys.exit(cxx.compile([*cxx.options, *arguments, *output]))


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    main()
