#!/usr/bin/env bash
# Installs Gravel, moves it, and uses it as strangers do: each umbrella header, every program of README.md and docs/,
# through gravel-c++, pkg-config and CMake.
#   install_test.sh MESON BUILD_DIRECTORY COMPILER [NVCC]
# COMPILER: the C++ compiler that Gravel was built with. NVCC: "" or the program; then a program is also built for CUDA.
set -euo pipefail
meson=$1 build=$2 compiler=$3 nvcc=${4:-}
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
unset LD_LIBRARY_PATH GRAVEL_AGGREGATOR  # nothing of the build may help
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$meson" install -C "$build" --no-rebuild --quiet --destdir "$work/staged"
# The installation is moved from where it believes to be, so every absolute path in it would show.
prefix=$work/moved
mv "$(dirname "$(dirname "$(find "$work/staged" -path '*/bin/ucx-run')")")" "$prefix"
libdir=$(dirname "$(find "$prefix" -name libgravel.so)")

fail() {
  echo "FAILED: $*"
  exit 1
}
quietly() {  # what a command says only where it fails
  "$@" > "$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }
}

# ---- what is there
for program in ucx-run gravel-aggregator gravel-info gravel-top gravel-c++ gravel-gups; do
  [ -x "$prefix/bin/$program" ] || fail "bin/$program is not there"
  "$prefix/bin/$program" --version > /dev/null || fail "$program --version"
done
case "$("$prefix/bin/gravel-info")" in
  *"$prefix/bin/gravel-aggregator"*) ;;
  *) fail "gravel-info does not find the aggregator beside it" ;;
esac
version=$("$prefix/bin/gravel-info" --version | sed 's/.* //')
if [ ! -L "$libdir/libgravel.so" ] || [ ! -e "$libdir/libgravel.so.${version%.*}" ]; then
  fail "libgravel.so has no soname with the minor version"
fi
texts=(--include='*.pc' --include='*.cmake' --include='*.hpp' --include='*.cuh')
if grep -rlF "${texts[@]}" -e "$(realpath "$build")" -e "$work" "$prefix"; then
  fail "these files name the build directory or the place of the installation"
fi
if grep -lF -e "$(realpath "$build")" -e "$work" "$prefix/bin/gravel-c++"; then fail "gravel-c++ has absolute paths"; fi
for file in LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs/installed.md; do
  [ -s "$prefix/share/doc/gravel/$file" ] || fail "$file is not there"
done
for program in "$prefix"/bin/*; do
  name=$(basename "$program")
  [ "$name" != gravel-aggregator ] || continue  # jobs start it
  for file in "bash-completion/completions/$name" "zsh/site-functions/_$name"; do
    [ -s "$prefix/share/$file" ] || fail "share/$file is not there"
  done
  if command -v help2man > /dev/null && [ ! -s "$prefix/share/man/man1/$name.1" ]; then
    fail "share/man/man1/$name.1 is not there"
  fi
done
for file in "$prefix"/bin/* "$libdir"/libgravel*.so; do
  path=$({ readelf -d "$file" 2> /dev/null || :; } | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
  case $path in '' | '$ORIGIN' | '$ORIGIN/'*) ;; *) fail "$file has the run path $path" ;; esac
done
# Internals stay inside.
internal=(-path '*transport*' -o -name 'plane*' -o -name 'aggregator*' -o -name 'runtime*')
if find "$prefix/include" "${internal[@]}" | grep .; then
  fail "these headers are not for programs"
fi
if grep -rnE '#\s*include\s*[<"](fmt|spdlog|CLI|nlohmann|hwloc|uc[mpst]|pmix|boost|zlib|metis)' "$prefix/include"; then
  fail "these headers need a library that is no part of the interface"
fi

# ---- headers
strict=(-fsyntax-only -fvisibility=hidden -Wall -Wextra -Wpedantic -Wshadow -Werror)
# shellcheck disable=SC2016,SC2086
ls "$prefix/include" | grep -vx gravel && fail "include/ has more than gravel/"
if grep -rnE '#\s*include\s*"' "$prefix/include"; then fail "these includes depend on where the header lies"; fi
# gravel/mpi.hpp is for compilers that find <mpi.h>.
(cd "$prefix/include" && ls gravel/*.* | grep -vx gravel/mpi.hpp) |
  xargs -P 2 -I HEADER sh -c 'printf "#include <HEADER>\n" | "$@" -x c++ -' sh \
  $compiler -std=c++20 "${strict[@]}" "-I$prefix/include" || fail "a public header alone"
echo "headers: ok"

# ---- programs, run as a job
mkdir "$work/programs"
python3 "$source/test/scripts/documents.py" "$work/programs"
run() {
  local said
  said=$("$prefix/bin/ucx-run" -n 2 --timeout 60 "$1" | sort) || fail "$1 ended with status $?"
  [ "$said" = $'PE 0 of 2: 1024 increments\nPE 1 of 2: 1024 increments' ] || fail "$1 said: $said"
}
# The first example of `ucx-run --help`.
example=$("$prefix/bin/ucx-run" --help | sed -n '/^Examples:/{n;s/  */ /g;s/ [0-9]* PEs on .*//;p}')
PATH=$prefix/bin:$PATH bash -c "timeout 300 $example" > "$work/log" ||
  { cat "$work/log"; fail "the example of ucx-run --help: $example"; }

# Where paths have blanks, and through a symbolic link.
place="$work/a place"
mkdir "$place"
cp -al "$prefix" "$place/gravel"
ln -s "$place/gravel/bin/gravel-c++" "$place/link"
cp "$work/programs/hello.cu" "$place/a program.cu"
export GRAVEL_CXX=$compiler
(cd "$place" && ./link -O0 -c "a program.cu" -o part.o && ./link part.o -o hello) || fail "gravel-c++"
run "$place/hello"
if readelf -d "$place/hello" | grep -E 'NEEDED.*(fmt|spdlog|libgravel_graph)'; then
  fail "a program needs a library that it does not use"
fi
shown=$("$place/link" --show "$place/a program.cu" -o "$place/as shown")
case $shown in
  *"-std=c++20"*"'-I$place/gravel/include'"*"-x c++ '$place/a program.cu' -x none"*-lgravel*) ;;
  *) fail "gravel-c++ --show: $shown" ;;
esac
case $("$place/link" --show -c -std=c++23 part.cpp) in
  *-lgravel* | *c++20* | *-x*) fail "gravel-c++ adds too much" ;;
esac
"$place/link" --help | grep -q 'gravel-c++ hello.cu -o hello' || fail "gravel-c++ --help"
# Graphs, with main in a .cpp.
cat > "$place/edges.cpp" << 'END'
#include <gravel/graph.hpp>
int main() { return gravel::make_csr(gravel::rmat(4, 2, 1)).targets.size() == 32 ? 0 : 1; }
END
"$place/link" -O0 "$place/edges.cpp" -o "$place/edges" || fail "gravel-c++ with lib/graph"
"$place/edges" || fail "a graph of 32 edges has another number"
# A program with a C++ library of its own: what it does not catch is still reported.
cat > "$place/throws.cpp" << 'CPP'
#include <gravel/gravel.cuh>
#include <stdexcept>
int main() {
  gravel_init<>();
  throw std::runtime_error("the program's own reason");
}
CPP
"$place/link" -O0 -static-libstdc++ -Wl,--exclude-libs,ALL "$place/throws.cpp" -o "$place/throws" || fail "throws.cpp"
status=0
"$place/throws" > "$work/log" 2>&1 || status=$?
if [ $status -ne 1 ] || ! grep -q "error: the program's own reason" "$work/log"; then
  cat "$work/log"
  fail "an exception of a program with its own C++ library: status $status"
fi
# A program of NVSHMEM with its usual options.
(cd "$place" && ./link --nvshmem -O0 -rdc=true -lnvshmem_device "$source/examples/nvshmem/jacobi.cu" -o jacobi) \
  2> "$work/log" || { cat "$work/log"; fail "gravel-c++ --nvshmem"; }
grep -q 'not needed, left out: -rdc=true -lnvshmem_device' "$work/log" || fail "gravel-c++ --nvshmem has no note"
quietly "$prefix/bin/ucx-run" -n 2 --timeout 60 "$place/jacobi"
echo "gravel-c++: ok"

export PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
[ "$(pkg-config --modversion gravel)" = "$version" ] || fail "the version in gravel.pc"
# A program of NVSHMEM: its package needs that of Gravel.
mkdir "$work/nvshmem"
cat > "$work/nvshmem/ring.cu" << 'END'
#include <nvshmem.h>
__global__ void put_right(int* at) { nvshmem_int_p(at, nvshmem_my_pe(), (nvshmem_my_pe() + 1) % nvshmem_n_pes()); }
int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe(), left = (me + nvshmem_n_pes() - 1) % nvshmem_n_pes();
  int* const from_left = static_cast<int*>(nvshmem_calloc(1, sizeof(int)));
  void* arguments[] = {const_cast<int**>(&from_left)};
  nvshmemx_collective_launch(put_right, 1, 1, arguments, 0, nullptr);
  nvshmem_barrier_all();
  const bool is_right = nvshmem_int_g(from_left, me) == left;
  nvshmem_free(from_left);
  nvshmem_finalize();
  return !is_right;
}
END
# shellcheck disable=SC2046,SC2086
$compiler -std=c++20 -O0 -x c++ "$work/nvshmem/ring.cu" -x none $(pkg-config --cflags --libs gravel-nvshmem) \
  -Wl,-rpath,"$libdir" -o "$work/ring"
quietly "$prefix/bin/ucx-run" -n 2 --timeout 60 "$work/ring"
# shellcheck disable=SC2016,SC2046,SC2086
printf '%s\0' "$work"/programs/*.cu |
  xargs -0 -P 2 -n 1 $compiler -std=c++20 "${strict[@]}" $(pkg-config --cflags gravel) -x c++ ||
  fail "a program of the documents"
pkg-config --exists --print-errors gravel-graph || fail "gravel-graph.pc"
echo "pkg-config: ok"

# ---- headers of another version, or of another libgravel
refused() {  # NAME SED_SCRIPT FILE WORDS...: what a program says that was compiled with a changed header
  cp -al "$prefix/include" "$work/$1"
  sed -i "$2" "$work/$1/gravel/detail/$3"
  # shellcheck disable=SC2086
  $compiler -std=c++20 -O0 -fvisibility=hidden "-I$work/$1" -x c++ "$work/programs/hello.cu" -x none \
    -L"$libdir" -lgravel -Wl,-rpath,"$libdir" -o "$work/$1/hello"
  if "$work/$1/hello" > "$work/log" 2>&1; then fail "a program with the headers of $1 runs"; fi
  for words in "${@:4}"; do
    grep -qF "$words" "$work/log" || { cat "$work/log"; fail "it does not say '$words'"; }
  done
}
refused another_version "s/\"$version\"/\"0.99.7\"/" lib/base/version.hpp \
  "headers of Gravel 0.99.7" "libgravel $version"
declared='GRAVEL_API extern constinit thread_local uint3 threadIdx, blockIdx'
defined='inline constinit thread_local uint3 threadIdx{}, blockIdx{}'
refused other_variables "s/$declared/$defined/" device/cpu/simt_cpu.hpp "threadIdx of its own"
echo "changed headers: ok"

if command -v cmake > /dev/null; then
  # Precompiled: all programs include the same first header.
  cat > "$work/programs/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.18)
project(programs CXX)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
find_package(gravel 0.3 REQUIRED)
file(GLOB files *.cu)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  gravel_add_executable(${name} ${file})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
  else()
    set(first ${name})
    target_precompile_headers(${name} PRIVATE <gravel/gravel.cuh>)
  endif()
endforeach()
add_executable(edges edges.cpp)
target_link_libraries(edges gravel::graph)
gravel_add_executable(ring ../nvshmem/ring.cu)
target_link_libraries(ring PRIVATE gravel::nvshmem)
if(NOT EXISTS "${gravel_UCX_RUN}")
  message(FATAL_ERROR "gravel_UCX_RUN is '${gravel_UCX_RUN}'")
endif()
END
  cp "$place/edges.cpp" "$work/programs"
  # shellcheck disable=SC2086
  set -- $compiler
  quietly cmake -G Ninja -S "$work/programs" -B "$work/built" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="${!#}" -DCMAKE_CXX_FLAGS=-O0
  quietly cmake --build "$work/built" -j 2
  run "$work/built/hello"
  quietly "$work/built/edges"
  quietly "$prefix/bin/ucx-run" -n 2 --timeout 60 "$work/built/ring"
  # Another minor version is another interface.
  mkdir "$work/other"
  other=99.1
  printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(other CXX)' "find_package(gravel $other REQUIRED)" \
    > "$work/other/CMakeLists.txt"
  if cmake -G Ninja -S "$work/other" -B "$work/other/built" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null 2>&1; then
    fail "find_package(gravel $other) found this version"
  fi
  echo "CMake: ok"
else
  echo "CMake: skipped, cmake is not installed"
fi

if [ -n "$nvcc" ]; then
  # Compiled and linked only: it needs a GPU to run.
  GRAVEL_NVCC=$nvcc "$prefix/bin/gravel-nvcc" -arch=sm_80 "$work/programs/hello.cu" -o "$work/cuda" ||
    fail "gravel-nvcc"
  echo "gravel-nvcc: ok"
else
  echo "gravel-nvcc: skipped, nvcc is not installed or not wanted"
fi
