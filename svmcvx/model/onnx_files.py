"""Models as files of ONNX, in double precision (extra ``onnx``)."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError, missing_extra
from svmcvx.kernels import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid
from svmcvx.model.base import Model
from svmcvx.model.binary import BinaryModel, KernelModel, LinearModel
from svmcvx.model.several import MulticlassModel, OneVsModel
from svmcvx.system.files import atomic_write

__all__ = ["write_onnx"]

# Versions of the operators and of the format that runtimes of the last years read.
OPERATORS, FORMAT = 17, 8
INPUT, LABEL, SCORES = "X", "label", "scores"
# Less than half of the difference of two votes.
TIE: Final = 3.0


class _Graph:
    """Nodes and constants of a graph; each operation returns the name of its result."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(
            self.numpy_helper.from_array(np.ascontiguousarray(np.asarray(value, dtype=dtype)), name)
        )
        return name

    def apply(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def write_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model as an ONNX file with the input ``X`` of shape (m, d) and the outputs ``label``
    and ``scores``, numbers in double precision.
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    graph = _Graph(helper, numpy_helper)
    d, place = _scored(graph, model)
    classes = np.asarray(model.classes)
    whole = classes.dtype.kind in "iub"
    if not whole:
        classes = classes.astype(str)
    names = graph.constant(classes, np.int64 if whole else object)
    graph.apply("Gather", names, place, name=LABEL)
    kind = TensorProto.INT64 if whole else TensorProto.STRING
    columns = None if isinstance(model, BinaryModel) else len(_columns(model))
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "svmcvx",
            [helper.make_tensor_value_info(INPUT, TensorProto.DOUBLE, ["m", d])],
            [
                helper.make_tensor_value_info(LABEL, kind, ["m"]),
                helper.make_tensor_value_info(
                    SCORES, TensorProto.DOUBLE, ["m"] if columns is None else ["m", columns]
                ),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPERATORS)],
        ir_version=FORMAT,
        producer_name="svmcvx",
    )
    onnx.checker.check_model(made)
    with atomic_write(path) as stream:
        stream.write(made.SerializeToString())


def _columns(model: Model) -> Any:
    return model.members if isinstance(model, OneVsModel) else model.classes


def _scored(graph: _Graph, model: Model) -> tuple[int, str]:
    """Add the scores and the place of the label among the classes; return the number of features
    and the name of the place.
    """
    if isinstance(model, BinaryModel):
        d, column = _score_of(graph, model)
        flat = graph.apply("Reshape", column, graph.constant([-1], np.int64), name=SCORES)
        positive = graph.apply("Greater", flat, graph.constant(0.0))
        return d, graph.apply("Cast", positive, to=graph.helper.TensorProto.INT64)
    if isinstance(model, MulticlassModel):
        product = graph.apply("MatMul", INPUT, graph.constant(model.coef))
        graph.apply("Add", product, graph.constant(model.intercept), name=SCORES)
        return model.coef.shape[0], graph.apply("ArgMax", SCORES, axis=1, keepdims=0)
    if not isinstance(model, OneVsModel):
        raise DataError(
            f"a {type(model).__name__} cannot be written as ONNX; linear and kernel models can"
        )
    found = [_score_of(graph, member) for member in model.members]
    graph.apply("Concat", *(name for _, name in found), name=SCORES, axis=1)
    if model.scheme == "ovr":
        return found[0][0], graph.apply("ArgMax", SCORES, axis=1, keepdims=0)
    return found[0][0], _voted(graph, len(model.classes))


def _voted(graph: _Graph, c: int) -> str:
    """Add the votes of all pairs, of which equal ones are decided by the sums of the scores; return
    the name of the place.
    """
    pairs = list(combinations(range(c), 2))
    later, earlier = np.zeros((len(pairs), c)), np.zeros((len(pairs), c))
    for row, (k, l) in enumerate(pairs):  # noqa: E741 - as in the formulas
        earlier[row, k], later[row, l] = 1.0, 1.0
    wins = graph.apply("Greater", SCORES, graph.constant(0.0))
    wins = graph.apply("Cast", wins, to=graph.helper.TensorProto.DOUBLE)
    # Of each pair the later class has the vote, or the earlier one.
    moved = graph.apply("MatMul", wins, graph.constant(later - earlier))
    votes = graph.apply("Add", moved, graph.constant(earlier.sum(axis=0)))
    sums = graph.apply("MatMul", SCORES, graph.constant(later - earlier))
    size = graph.apply("Add", graph.apply("Abs", sums), graph.constant(1.0))
    share = graph.apply("Div", sums, graph.apply("Mul", size, graph.constant(TIE)))
    return graph.apply("ArgMax", graph.apply("Add", votes, share), axis=1, keepdims=0)


def _score_of(graph: _Graph, model: BinaryModel) -> tuple[int, str]:
    """Add the score of a binary model as a column; return the number of features and its name."""
    if isinstance(model, LinearModel):
        product = graph.apply("MatMul", INPUT, graph.constant(model.coef[:, None]))
        return model.coef.size, graph.apply("Add", product, graph.constant(model.intercept))
    if not isinstance(model, KernelModel) or model.vectors is None:
        raise DataError(
            "a model with a precomputed kernel cannot be written as ONNX; it has no rows to compare"
            " with"
        )
    vectors: Any = (
        model.vectors.toarray() if sp.issparse(model.vectors) else np.asarray(model.vectors)
    )
    values = _kernel(graph, model.kernel, vectors)
    product = graph.apply("MatMul", values, graph.constant(model.dual_coef[:, None]))
    return model.n_features, graph.apply("Add", product, graph.constant(model.intercept))


def _kernel(graph: _Graph, kernel: Any, vectors: NDArray[np.float64]) -> str:
    if isinstance(kernel, (Linear, Polynomial, Sigmoid)):
        product = graph.apply("MatMul", INPUT, graph.constant(vectors.T))
        if isinstance(kernel, Linear):
            return product
        moved = graph.apply("Mul", product, graph.constant(kernel.gamma))
        moved = graph.apply("Add", moved, graph.constant(kernel.coef0))
        if isinstance(kernel, Sigmoid):
            return graph.apply("Tanh", moved)
        return graph.apply("Pow", moved, graph.constant(float(kernel.degree)))
    if isinstance(kernel, Laplacian):
        rows = graph.apply("Unsqueeze", INPUT, graph.constant([1], np.int64))
        distances = graph.apply("Abs", graph.apply("Sub", rows, graph.constant(vectors)))
        exponent = graph.apply("ReduceSum", distances, graph.constant([2], np.int64), keepdims=0)
    elif isinstance(kernel, (RBF, Exponential)):
        # Distances do not change with the origin; near the mean of the vectors they lose fewer
        # digits.
        centre = vectors.mean(axis=0) if vectors.shape[0] else np.zeros(vectors.shape[1])
        moved, near = graph.apply("Sub", INPUT, graph.constant(centre)), vectors - centre
        own = graph.apply(
            "ReduceSum", graph.apply("Mul", moved, moved), graph.constant([1], np.int64), keepdims=1
        )
        cross = graph.apply("MatMul", moved, graph.constant(-2.0 * near.T))
        squares = graph.apply(
            "Add", graph.apply("Add", cross, own), graph.constant((near**2).sum(axis=1))
        )
        exponent = graph.apply("Max", squares, graph.constant(0.0))
        if isinstance(kernel, Exponential):
            exponent = graph.apply("Sqrt", exponent)
    else:
        raise DataError(
            f"the kernel {kernel} cannot be written as ONNX; those of svmcvx.kernels can"
        )
    return graph.apply("Exp", graph.apply("Mul", exponent, graph.constant(-float(kernel.gamma))))
