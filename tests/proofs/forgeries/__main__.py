"""``python -m tests.proofs.forgeries FOLDER`` writes the files."""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .corpus import forgeries


def write(folder: Path) -> int:
    """Write all files to a folder and return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, forgery in enumerate(forgeries()):
        forged, name = forgery.make(), f"{number:03d}"
        (folder / f"{name}.proof.npz").write_bytes(forged.content)
        arrays = {"X": forged.X}
        if sp.issparse(forged.X):
            names = ("data", "indices", "indptr", "shape")
            arrays = {name: getattr(forged.X, name) for name in names}
        test = {} if forged.T is None else {"T": forged.T}
        np.savez(folder / f"{name}.data.npz", y=forged.y, **arrays, **test)
        entry = {"file": name, "what": forgery.name, "reason": forgery.reason}
        index.append(entry | {"optimum": forged.optimum})
    (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    return len(index)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} files in {sys.argv[1]}")
