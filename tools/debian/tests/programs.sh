# For the tests of the packages, which run in the source tree: the program of README.md, as $AUTOPKGTEST_TMP/hello.cu.
sed -n '/^\/\/ file: hello.cu$/,/^```$/{/^```$/!p}' README.md >"$AUTOPKGTEST_TMP/hello.cu"
grep -q gravel_inc "$AUTOPKGTEST_TMP/hello.cu" || { echo "README.md has no hello.cu"; exit 1; }
source_tree=$PWD
cd "$AUTOPKGTEST_TMP"

# greets PROGRAM: whether it says as a job of 2 PEs what hello.cu is to say.
greets() {
  local said
  said=$(ucx-run -n 2 --timeout 60 "$1" | sort)
  [ "$said" = $'PE 0 of 2: 1024 increments\nPE 1 of 2: 1024 increments' ] || { echo "$1 said: $said"; exit 1; }
}
