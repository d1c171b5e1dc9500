"""Reads and writes the corpus of a fuzzer, a file of inputs with their lengths in two bytes.

    python tests/core/corpus.py unpack CORPUS FOLDER
    python tests/core/corpus.py pack CORPUS FOLDER

libFuzzer works on folders with one file for each input; see tests/core/grow_corpus.
"""

import hashlib
import sys
from pathlib import Path


def unpack(corpus: Path, folder: Path) -> None:
    """Write a file for each input, named after its content."""
    folder.mkdir(parents=True, exist_ok=True)
    data = corpus.read_bytes() if corpus.exists() else b""
    while data:
        size = int.from_bytes(data[:2], "little")
        one, data = data[2 : 2 + size], data[2 + size :]
        (folder / hashlib.sha256(one).hexdigest()[:40]).write_bytes(one)


def pack(corpus: Path, folder: Path) -> None:
    """Write all inputs, the shortest first."""
    inputs = sorted({p.read_bytes() for p in folder.iterdir()}, key=lambda one: (len(one), one))
    corpus.write_bytes(b"".join(len(one).to_bytes(2, "little") + one for one in inputs))
    print(f"{corpus.name}: {len(inputs)} inputs")


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
