"""The numbers that the documents show are those of the result files.

README.md: each measured number is a link to a result file and a key in it, and the file says the same number. So do
such links in docs/.

    [58.8 G/s](bench/results/FILE.json#nvshmem_32_mib/rows/work=remote/gravel_million_per_s)

A blank in the path is written %20. The part behind `#` is a path: names of members, and `name=value` for the element of
a list. The number is compared in the unit of the link's text, to its last digit; the last name of the path says the
unit in the file.

docs/: a table below a paragraph that links to bench/results/FILE.json#tables/NAME has the cells of that table in the
file.

bench/results: each file is named by a document, each named one exists, and each says machine, date, commit and command.
Usage: numbers_test.py [FOLDER]"""

import json
import re
import sys
import unittest
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parents[2]
PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9}
# How the names of keys end, and what one of it is in the base unit.
UNITS = {"million_per_s": 1e6, "million_updates_per_s": 1e6, "gb_per_s": 1e9, "us": 1e-6, "ms": 1e-3, "seconds": 1,
         "per_s": 1, "teps": 1, "ratio": 1, "passed": 1, "failed": 1}
# A number with one of these units is a measurement, and needs a link.
MEASURED = r"(?<![\w.])\d[\d.,]*\s*(?:[kMGT]?\s?[\w-]*/s|[num]?s\b|times\b|%|checks\b)"
LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(bench/results/[^)#]+\.json)#(?!tables/)([^)]+)\)")
RESULT = re.compile(r"bench/results/(\d[\w.-]+\.\w+)")
TABLE_LINK = re.compile(r"bench/results/(\d[\w.-]+\.json)#tables/([\w-]+)")
FIELDS = ("machine", "date", "commit", "command")


def without_code(text):
    return re.sub(r"`[^`]*`", "", re.sub(r"^(```.*?^```|    .*?$)", "", text, flags=re.M | re.S))


def value_at(report, path):
    for name in path.split("/"):
        if isinstance(report, list):
            key, _, wanted = name.partition("=")
            found = [row for row in report if str(row.get(key)) == wanted]
            if not found:
                raise KeyError(name)
            report = found if len(found) > 1 else found[0]
        else:
            report = report[name]
    return report


def says(text, value, path):
    """Whether `text`, such as 58.8 G/s, is `value`, rounded as the text is."""
    number = re.match(r"(\d+(?:\.\d+)?)\s*(.*)", text)
    if not number:
        return False
    digits, unit = number.groups()
    scale = next((factor for end, factor in UNITS.items() if path.endswith(end)), None)
    if scale is None or isinstance(value, (dict, list, str)):
        return False
    prefix = re.match(r"([kMGTmun]?)(?:s$|[A-Za-z ]*/s|B/s)", unit)
    shown = PREFIXES[prefix[1]] if prefix else 1
    decimals = len(digits.partition(".")[2])
    return f"{value * scale / shown:.{decimals}f}" == digits


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def cell(text):
    """A cell of a Markdown table: None, a number, a list of numbers, or text."""
    text = text.replace("**", "").strip()
    if not re.fullmatch(r"-?\d+(\.\d+)?([,;] ?-?\d+(\.\d+)?)*", text):
        return text or None
    numbers = [float(number) if "." in number else int(number) for number in re.split(r"[,;] ?", text)]
    return numbers[0] if len(numbers) == 1 else numbers


def linked_tables(text):
    """(file, name, columns, rows) of each table of a page below a paragraph that links to a table of a result file."""
    for paragraph, table in re.findall(r"((?:^(?!\||#).+\n)+)\n((?:^\|.*\n)+)", text, re.M):
        links = TABLE_LINK.findall(paragraph)
        if links:
            columns, _, *rows = [[cell(part) for part in line.strip()[1:-1].split("|")] for line in table.splitlines()]
            yield *links[-1], columns, rows


class ResultsTest(unittest.TestCase):
    def test_tables(self):
        found = [(page, *table) for page in pages() for table in linked_tables(page.read_text())]
        self.assertTrue(found)
        for page, file, name, columns, rows in found:
            with self.subTest(page=page.name, file=file, table=name):
                tables = json.loads((ROOT / "bench/results" / file).read_text())["tables"]
                self.assertEqual({"columns": columns, "rows": rows}, tables[name])

    def test_every_table_is_shown(self):
        shown = {table for page in pages() for table in TABLE_LINK.findall(page.read_text())}
        for path in sorted((ROOT / "bench/results").glob("*.json")):
            for name in json.loads(path.read_text()).get("tables", {}):
                with self.subTest(file=path.name, table=name):
                    self.assertIn((path.name, name), shown, "no document shows it")

    def test_files(self):
        named = {name for page in pages() for name in RESULT.findall(page.read_text())}
        there = {path.name for path in (ROOT / "bench/results").iterdir()}
        self.assertEqual(sorted(named - there), [], "documents name these, and they do not exist")
        self.assertEqual(sorted(there - named), [], "no document names these")

    def test_origin(self):
        for path in sorted((ROOT / "bench/results").glob("*.json")):
            with self.subTest(file=path.name):
                self.assertEqual([field for field in FIELDS if field not in json.loads(path.read_text())], [])


class NumbersTest(unittest.TestCase):
    def test_links(self):
        links = [(page.name, *link) for page in pages() for link in LINK.findall(page.read_text())]
        self.assertTrue(links)
        for page, text, file, path in links:
            with self.subTest(page=page, number=text, key=path):
                report = json.loads((ROOT / file).read_text())
                try:
                    value = value_at(report, unquote(path))
                except (KeyError, TypeError):
                    self.fail(f"{file} has no {path}")
                self.assertTrue(says(text, value, path), f"{page} says {text}, {file} says {value}")

    def test_no_number_without_file(self):
        prose = re.sub(r"\[[^\]]*\]\([^)]*\)", "", without_code((ROOT / "README.md").read_text()))
        self.assertEqual(re.findall(MEASURED, prose), [], "these numbers of README.md lead to no result file")

    def test_comparison(self):
        """The comparison itself can fail."""
        self.assertTrue(says("58.8 G/s", 58763.9, "gravel_million_per_s"))
        self.assertFalse(says("58.9 G/s", 58763.9, "gravel_million_per_s"))
        self.assertFalse(says("58.8 M/s", 58763.9, "gravel_million_per_s"))
        self.assertTrue(says("2.90 us", 2.904, "us"))
        self.assertTrue(says("12.1 ms", 0.012056654, "seconds"))
        self.assertTrue(says("96.5 G edges/s", 96457839695.4, "harmonic_mean_teps"))
        self.assertTrue(says("11.2 times", 11.2097, "ratio"))
        self.assertFalse(says("11.2 times", {"a": 1}, "ratio"))
        two_rows = {"rows": [{"work": "a", "ratio": 1}, {"work": "b", "ratio": 2}]}
        self.assertEqual(value_at(two_rows, "rows/work=b/ratio"), 2)
        for text in ("takes 3.0 us for", "9.4 times NVSHMEM", "45 G/s to", "0.97 %", "370 GB/s", "6.8 G k-mers/s",
                     "531 checks"):
            self.assertTrue(re.search(MEASURED, text), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
