"""Facts about the machine for bench/paper and bench/groute, and their tables."""

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


def print_table(table):
    widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
    for row in table:
        first, *others = (str(cell) for cell in row)
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]
        print("  " + "  ".join(cells))
