#!/usr/bin/env bash
# Builds a program of its own against an installed Gravel, through pkg-config and through CMake, and runs it as a job.
#   install_test.sh MESON BUILD_DIRECTORY COMPILER [NVCC]
# COMPILER: the C++ compiler that Gravel was built with. NVCC: "" or the program; then it is also built for CUDA.
set -euo pipefail
meson=$1 build=$2 compiler=$3 nvcc=${4:-}
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

for program in ucx-run gravel-aggregator gravel-info; do
  [ -x "$prefix/bin/$program" ] || fail "bin/$program is not there"
  "$prefix/bin/$program" --version > /dev/null || fail "$program --version"
done
case "$("$prefix/bin/gravel-info")" in
  *"$prefix/bin/gravel-aggregator"*) ;;
  *) fail "gravel-info does not find the aggregator beside it" ;;
esac
if [ ! -L "$libdir/libgravel.so" ] || [ ! -e "$libdir/libgravel.so.0" ]; then fail "libgravel.so has no soname links"; fi
if grep -rlF --include='*.pc' --include='*.cmake' --include='*.hpp' --include='*.cuh' -e "$(realpath "$build")" -e "$work" "$prefix"; then
  fail "these files name the build directory or the place of the installation"
fi
if readelf -d "$prefix"/bin/* "$libdir/libgravel.so" | grep -E 'R(UN)?PATH'; then fail "a program has a run path"; fi
# Internals stay inside.
if find "$prefix/include" -path '*transport*' -o -name 'plane*' -o -name 'aggregator*' -o -name 'runtime*' | grep .; then
  fail "these headers are not for programs"
fi

mkdir "$work/program"
cat > "$work/program/count.cu" << 'END'
#include <gravel.cuh>
#include <cstdio>
__global__ void count(gravel_t g, uint64_t* n) { gravel_inc(g, n, (gravel_my_pe(g) + 1) % gravel_n_pes(g)); }
int main() {
  gravel_init<>();
  auto* n = gravel_malloc<uint64_t>(8);
  gravel_launch(count, 4, 64, gravel_handle(), n);
  gravel_barrier_all();
  uint64_t got;
  gravel_copy(&got, n, 8);
  std::printf("PE %d of %d: %d increments\n", gravel_my_pe(), gravel_n_pes(), static_cast<int>(got));
  gravel_finalize();
}
END

run() {
  local said
  said=$("$prefix/bin/ucx-run" -n 2 --timeout 60 "$1" | sort) || fail "$1 ended with status $?"
  [ "$said" = $'PE 0 of 2: 256 increments\nPE 1 of 2: 256 increments' ] || fail "$1 said: $said"
}

export PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
[ "$(pkg-config --modversion gravel)" = "$("$prefix/bin/gravel-info" --version | sed 's/.* //')" ] || fail "the version in gravel.pc"
# shellcheck disable=SC2046,SC2086
$compiler -std=c++20 -O1 -x c++ "$work/program/count.cu" -x none $(pkg-config --cflags --libs gravel) -Wl,-rpath,"$libdir" \
  -o "$work/program/through-pkg-config"
run "$work/program/through-pkg-config"
echo "pkg-config: ok"

if command -v cmake > /dev/null; then
  cat > "$work/program/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.18)
project(count CXX)
find_package(gravel 0.1 REQUIRED)
set_source_files_properties(count.cu PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
add_executable(count count.cu)
target_link_libraries(count gravel::gravel)
if(NOT EXISTS "${gravel_UCX_RUN}")
  message(FATAL_ERROR "gravel_UCX_RUN is '${gravel_UCX_RUN}'")
endif()
END
  # shellcheck disable=SC2086
  set -- $compiler
  cmake -G Ninja -S "$work/program" -B "$work/program/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="${!#}" > "$work/log" ||
    { cat "$work/log"; fail "cmake"; }
  cmake --build "$work/program/build" > "$work/log" || { cat "$work/log"; fail "cmake --build"; }
  run "$work/program/build/count"
  # Another minor version is another interface.
  sed -i 's/gravel 0.1/gravel 99.1/' "$work/program/CMakeLists.txt"
  if cmake -G Ninja -S "$work/program" -B "$work/program/other" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null 2>&1; then
    fail "find_package(gravel 99.1) found this version"
  fi
  echo "CMake: ok"
else
  echo "CMake: skipped, cmake is not installed"
fi

if [ -n "$nvcc" ]; then
  # Compiled and linked only: it needs a GPU to run.
  # shellcheck disable=SC2046
  "$nvcc" -std=c++20 -arch=sm_80 "$work/program/count.cu" $(pkg-config --cflags --libs gravel) -o "$work/program/cuda"
  echo "nvcc: ok"
else
  echo "nvcc: skipped, it is not installed or not wanted"
fi
