"""Facts about the machine for bench/paper and bench/groute, and their tables."""

import os
import subprocess
from pathlib import Path


def gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [line.split(": ", 1)[1].split(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ") and ": " in line]


def processor():
    try:
        names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        names = []
    return f"{os.cpu_count()} cores, {names[0] if names else 'unknown processor'}"


def print_table(table):
    widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  " + "  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))
