"""The programs of README.md and docs/: each ```cpp block whose first line is `// file: NAME.cu`. Usage: documents.py
FOLDER, which writes them there."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A fenced block whose first line ends with the word `before` quotes an old state of the tree: ```cpp before
BEFORE = re.compile(r"^```\w+ before\n.*?^```$", re.M | re.S)
# The line with which an excerpt begins: `// from: PATH` in C++, `<!-- from: PATH -->` in Markdown. For an old state the
# path is COMMIT:PATH.
FROM = r"(?://|<!--) from: (\S+)(?: -->)?\n"
# Flags of foreign programs. Gravel's headers are not system headers there, and Python extensions hide what they do not
# export.
STRICT = ["-fvisibility=hidden", "-fvisibility-inlines-hidden", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def programs():
    """(page, name, text) of each."""
    for page in PAGES:
        for text in re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.M | re.S):
            name = re.match(r"// file: (\w+\.cu)\n", text)
            if name:
                yield page.name, name[1], text


if __name__ == "__main__":
    for _, name, text in programs():
        (Path(sys.argv[1]) / name).write_text(text)
