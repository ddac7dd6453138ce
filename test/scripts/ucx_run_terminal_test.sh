#!/bin/sh
# ucx_run_terminal_test.sh PROGRAM: the tests of ucx-run at a terminal; skipped where there can be none.
if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
  echo "skipped: no pseudo terminal can be made here (in a chroot or container: is devpts mounted on /dev/pts?)"
  exit 77
fi
exec "$1" '[terminal]'
