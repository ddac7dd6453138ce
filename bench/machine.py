"""Facts about the machine and the sources for bench/paper and bench/groute, and their tables."""

import os
import subprocess
from pathlib import Path


def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                check=False)
    except OSError:
        return []
    return [line.split(": ", 1)[1].split(" (UUID")[0] for line in listed.stdout.splitlines()
            if line.startswith("GPU ") and ": " in line]


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return f"{os.cpu_count()} cores, {names[0] if names else 'unknown processor'}"


def commit():
    """The commit of these sources, or None where they are no checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=Path(__file__).resolve().parent, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def value_of(cell):
    """A number where the cell of a table is one."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return None if cell == "-" else cell


def columns_and_rows(table):
    """A table as result files have it."""
    return {"columns": table[0], "rows": [[value_of(cell) for cell in row] for row in table[1:]]}


def print_table(table):
    widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
    for row in table:
        first, *others = (str(cell) for cell in row)
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]
        print("  " + "  ".join(cells))
