"""Code, comments, messages and documents use the glossary's words, and none of those that it has replaced.

docs/glossary.md: the last column of each table has the words that a term replaced. FORMS says how each of them is
written. All files are searched, also the parts of identifiers. Each refused word is reported with its file, its line
and the term to use instead. ALLOWED lists uses that the glossary does not mean. In documents, blocks whose opening
fence ends with the word `before` quote old states (docs/style.md) and are left out. Usage: words_test.py"""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from documents import BEFORE  # noqa: E402
from sources import files  # noqa: E402

SEARCHED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "meson.build", "cmake", "lib", "device",
            "host", "transport", "test", "examples", "bench", "tools", "docs")
# The glossary itself, this file, results as they were recorded, data, and the licenses of others.
LEFT_OUT = ("docs/glossary.md", "test/scripts/words_test.py", "bench/results/", "test/data/", "tools/debian/copyright")

# Each word of the glossary's last column -> how it is written: a regular expression, in which a blank is a space, a
# line break or an underscore. None: the word is right elsewhere, so no search can decide it.
FORMS = {
    "segment": None,
    "letter": r"letters?",
    "mail": r"mails?",
    "run": None,
    "node channel": r"node channels?",
    "channel": None,
    "put aside": r"put(s|ting)? aside",
    "held up": r"held up",
    "invite": r"invit(e|es|ed|ing)",
    "invitation": r"invitations?",
    "owed ticket": r"ow(e|es|ed|ing)",
    "pay": None,
    "meeting": r"meetings?",
    "to meet": r"meet|meets|met",
    "look": r"may_look",
    "looker": r"lookers?",
    "starving": r"starv(e|es|ed|ing|ation)",
    "bell": r"bells?",
    "hold": None,
    "server": r"server",
    "servers": r"servers",
    "synchronization servers": None,  # servers finds it
    "given": r"was_given",
    "gift": r"gifts?",
    "plenty": r"plenty",
    "lent": r"lend|lends|lending|lent",
    "borrowed": r"borrow(s|ed|ing)?",
    "guests": r"guests?",
    "hurry": r"hurr(y|ies|ied|ying)",
    "asked": None,
    "parcel": r"parcels?",
    "desk": r"desks?",
    "task": None,
    "packet": None,
    "tell": r"tells?|telling",
    "told": r"told",
    "take hold": r"(take|takes|taken|took) hold",
    "give back": r"give_back",
    "bring": None,
    "give": None,
    "go on": r"go_on",
}
# In these files letters are those of DNA, or of an alphabet.
ALPHABETS = (r"lib/reads/.*|lib/gravel/reads\.hpp|lib/graph/cage\.cpp|docs/applications\.md|"
             r"examples/(applications/)?(mer|contigs|kmer)\w*[./].*|bench/rivals/.*mer.*|tools/real_reads|"
             r"test/unit/reads_test\.cpp|test/fuzz/reader_fuzz\.cpp|"
             r"test/scripts/(applications|input_files|real_reads)_test\.py")
# (files, text): uses that the glossary does not mean. A word inside such a text is not refused.
ALLOWED = (
    (ALPHABETS, r"letters?"),
    # PMIx has servers and clients, and so has a socket.
    (r"transport/.*", r"servers?"),
    (r".*", r"PMIx servers?"),
    # The thread of the CPU backend that serves the rings.
    (r".*", r"ring_server"),
    # A paper, and the methods and rows of recorded results that are named after it.
    (r"docs/.*|lib/critical/.*", r"synchronization servers"),
    (r".*", r"\\?[\"'`]servers\\?[\"'`]|--methods? servers|bench/results/[\w.-]+"),
    (r"examples/critical/contest\.hpp", r"servers"),
    (r".*", r"(tell|tells|told|telling) (\S+ ){0,4}apart"),
)


def pattern_of(form):
    """Finds the form outside of longer words. Underscores part words; a phrase may go on in the next comment line."""
    gap = r"(?:_|[ ]|[ ]*\n[ \t/#*]*)"
    return re.compile(rf"(?<![A-Za-z])(?:{form.replace(' ', gap)})(?![A-Za-z])", re.I)


def replaced_words(glossary):
    """(word, the term that replaced it) for each word of the last column."""
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[3] not in ("", "formerly", "---"):
            for word in re.sub(r"\([^)]*\)", "", cells[3]).split(","):
                yield word.strip(), cells[0]


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS = [(FORMS[word], term) for word, term in dict(replaced_words(GLOSSARY)).items() if FORMS.get(word)]
# One search for all, with a group for each form.
SEARCH = pattern_of("|".join(f"({form.replace('(', '(?:')})" for form, _ in TERMS))
EXCEPTIONS = [(re.compile(files), pattern_of(text)) for files, text in ALLOWED]


def refused_words(name, text):
    """A line for each refused word in the text of a file."""
    exceptions = [text_of for files, text_of in EXCEPTIONS if files.fullmatch(name)]
    allowed = [found.span() for text_of in exceptions for found in text_of.finditer(text)]
    if name.endswith(".md"):
        allowed += [found.span() for found in BEFORE.finditer(text)]
    for found in SEARCH.finditer(text):
        if not any(begin <= found.start() and found.end() <= end for begin, end in allowed):
            line = text.count("\n", 0, found.start()) + 1
            word, (_, term) = " ".join(found[0].split()), TERMS[found.lastindex - 1]
            yield f"{name}:{line}: '{word}': the glossary's word is '{term}'"


def searched_files():
    """(name, text) of each text file of SEARCHED."""
    for name in files():
        is_text = Path(name).suffix not in (".png", ".gz", ".pyc", ".svg")
        if is_text and name.split("/")[0] in SEARCHED and not name.startswith(LEFT_OUT):
            yield name, (ROOT / name).read_text(errors="replace")


class WordsTest(unittest.TestCase):
    def test_words(self):
        files = dict(searched_files())
        self.assertGreater(len(files), 400)
        faults = [fault for name, text in files.items() for fault in refused_words(name, text)]
        if faults:
            self.fail(f"{len(faults)} words that the glossary has replaced:\n" + "\n".join(faults))

    def test_glossary(self):
        """FORMS has each word of the glossary's last column, and no other."""
        self.assertEqual(sorted({word for word, _ in replaced_words(GLOSSARY)}), sorted(FORMS))

    def test_planted(self):
        """A refused word is found, in its line, with the term to use; what is allowed is not."""
        for text, line, word, term in (
                ("// Rings the bell.", 1, "bell", "doorbell"),
                ("a\nif (t.may_look()) return;", 2, "may_look", "poll"),
                ("uint64_t owed_;", 1, "owed", "deferred ticket"),
                ("// What was put\n// aside.", 1, "put // aside", "backlog"),
                ("## Meetings\n", 1, "Meetings", "rendezvous"),
                ('fail("who is told");', 1, "told", "report"),
                ("Tasks LENT by others", 1, "LENT", "exported, imported"),
                ("two servers", 1, "servers", "critical sections")):
            with self.subTest(text=text):
                found = list(refused_words("lib/some/file.hpp", text))
                self.assertEqual(found, [f"lib/some/file.hpp:{line}: '{word}': the glossary's word is '{term}'"])
        for name, text in (
                ("lib/base/ring.hpp", "the doorbell, a mailbox, tolderance, a metadata word, helmet, payload"),
                ("lib/reads/reads.hpp", "five letters"),
                ("docs/launching.md", "the PMIx server of the launcher"),
                ("docs/critical.md", "the idea of Synchronization servers"),
                ("bench/plot", 'if row["benchmark"] == "servers":'),
                ("bench/plot", "Colours that people can tell apart")):
            with self.subTest(text=text):
                self.assertEqual(list(refused_words(name, text)), [])

    def test_before(self):
        """Blocks of documents that quote an old state may have refused words. Other blocks, text and sources may
        not."""
        quoted = "```cpp before\n// from: 1234567:lib/a.hpp\n// Rings the bell.\n```\n"
        for name, text, lines in (
                ("docs/style.md", quoted, []),
                ("docs/style.md", quoted + "\nA bell.\n\n" + quoted, [6]),
                ("docs/style.md", quoted.replace(" before", ""), [3]),
                ("docs/style.md", quoted + quoted.replace(" before", ""), [7]),
                ("lib/some/file.hpp", quoted, [3])):
            with self.subTest(name=name, text=text):
                self.assertEqual([int(fault.split(":")[1]) for fault in refused_words(name, text)], lines)


if __name__ == "__main__":
    unittest.main()
