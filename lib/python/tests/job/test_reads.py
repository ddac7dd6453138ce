"""k-mers of files, compared with Python's own count."""

from __future__ import annotations

import collections
import gzip
import tempfile

import numpy as np
import pytest

import gravel as gr

BASES = np.array(list("ACGT"))
COMPLEMENT = str.maketrans("ACGT", "TGCA")


def reads_of(seed):
    """Some reads, with repeats and an N, which is no base."""
    random = np.random.default_rng(seed)
    genome = "".join(random.choice(BASES, size=600))
    starts = random.integers(500, size=60)
    return [genome[at : at + 100] for at in starts] + ["ACGTNACGTACGTT", "AC", "ttgacattgaca"]


def counted(reads, k):
    found = collections.Counter()
    for read in reads:
        for piece in read.upper().split("N"):
            for at in range(len(piece) - k + 1):
                kmer = piece[at : at + k]
                found[min(kmer, kmer.translate(COMPLEMENT)[::-1])] += 1
    return found


@pytest.fixture(scope="module")
def files():
    """A FASTA file, and a FASTQ file that is compressed. PE 0 writes them for all."""
    with tempfile.TemporaryDirectory() as folder:
        folder = str(gr.broadcast(np.array([folder], "U300"))[0])
        paths = [f"{folder}/a.fa", f"{folder}/b.fq.gz"]
        if gr.my_pe() == 0:
            with open(paths[0], "w") as file:
                file.write("".join(f">{i}\n{read}\n" for i, read in enumerate(reads_of(1))))
            with gzip.open(paths[1], "wt") as file:
                file.write("".join(f"@{i}\n{read}\n+\n{'I' * len(read)}\n" for i, read in enumerate(reads_of(2))))
        gr.barrier()
        yield paths
        gr.barrier()


@pytest.mark.parametrize("k", [1, 5, 21, 31])
def test_count(files, k):
    counts = gr.reads.count_kmers(files, k)
    wanted = counted(reads_of(1) + reads_of(2), k)
    keys, values = (np.array(part.tolist()) for part in counts.local_items())
    here = dict(zip(gr.reads.text_of(keys, k), values.tolist()))
    assert all(wanted[text] == count for text, count in here.items())
    assert counts.size() == len(wanted) and gr.sum_all(int(values.sum())) == sum(wanted.values())
    counts.free()


def test_one_file(files):
    counts = gr.reads.count_kmers(files[0], 9)
    assert counts.size() == len(counted(reads_of(1), 9))
    counts.free()


def test_mistakes(files):
    for k, text in ((4, "k is 4: it is odd, and 1 to 31"), (33, "k is 33"), (0, "k is 0")):
        with pytest.raises(ValueError, match=text):
            gr.reads.count_kmers(files, k)
    with pytest.raises(TypeError, match="k is an int, not float"):
        gr.reads.count_kmers(files, 5.0)
    with pytest.raises(gr.Error, match="no_such_file"):
        gr.reads.count_kmers([files[0], "no_such_file.fa"], 5)
    if gr.n_pes() > 1:
        with pytest.raises(ValueError, match="different files or another k"):
            gr.reads.count_kmers(files, 5 if gr.my_pe() else 7)
        with pytest.raises(ValueError, match="different files or another k"):
            gr.reads.count_kmers(files[0] if gr.my_pe() else files[1], 5)


def test_text():
    assert gr.reads.text_of([0, 0b00_01_10_11_11], 5) == ["AAAAA", "ACGTT"]
    assert gr.reads.text_of([], 5) == []
