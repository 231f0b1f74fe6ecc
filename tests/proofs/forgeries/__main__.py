"""``python -m tests.proofs.forgeries FOLDER`` writes the files."""

import argparse
import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .corpus import forgeries

SPARSE = ("data", "indices", "indptr", "shape")


def write(folder: Path) -> int:
    """Write all files to a folder and return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, forgery in enumerate(forgeries()):
        forged, name = forgery.make(), f"{number:03d}"
        (folder / f"{name}.proof.npz").write_bytes(forged.content)
        X = (
            {name: getattr(forged.X, name) for name in SPARSE}
            if sp.issparse(forged.X)
            else {"X": forged.X}
        )
        test = {} if forged.T is None else {"T": forged.T}
        np.savez(folder / f"{name}.data.npz", y=forged.y, **X, **test)
        index.append(
            {
                "file": name,
                "what": forgery.name,
                "reason": forgery.reason,
                "optimum": forged.optimum,
            }
        )
    (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    return len(index)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.forgeries", description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    print(f"{write(options.folder)} files in {options.folder}")
