r"""Envelopes of the hinge losses of score differences around multipliers, and their second
derivatives.

For a loss with :math:`\ell(f) = \max_{a \in A}\sum_k a_k(1-f_k)` the envelope around a centre A of
weight s is

.. math:: e(f) = \max_{a \in sA}\; \sum_k a_k(1-f_k) - \frac{\|a - \bar a\|^2}{2\sigma},

whose maximiser is the projection of :math:`\bar a + \sigma(1-f)`. Its second derivative is σ times
the projector onto the face of the domain in which the projection ends, so that only multipliers
strictly between their bounds count.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.several_classes.systems import projection_passes as passes
from svmcvx.formulations.multiclass.losses import HingeSum, ScoreLoss
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.formulations.multiclass.simplex_losses import TopHinge

__all__ = ["Envelope", "FaceCurvature", "Faces", "Projection"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]


class Projection(NamedTuple):
    """Multipliers of differences, with the entry of the own class if there is one, and the faces
    that contain them.
    """

    full: Floats
    state: NDArray[np.int8]
    mode: NDArray[np.int8]


class Faces(NamedTuple):
    """Orthonormal vectors of all faces: the observation of each, and its coefficients of the scores
    of all classes.
    """

    owner: Rows
    rows: Floats


class Envelope:
    """The envelope of a hinge loss."""

    def __init__(self, scores: ScoreSpace, loss: ScoreLoss) -> None:
        self.scores, self.weight = scores, scores.data.weight
        self.boxed = isinstance(loss, HingeSum)
        self.k = loss.k if isinstance(loss, TopHinge) else 1
        n, c = scores.data.n, scores.data.c
        self.shape = n, c - 1 if self.boxed else c
        self.centre = np.zeros(self.shape)
        self.sigma = 1.0

    def start(self, alpha: Floats) -> None:
        """Centre the envelope at multipliers of shape (n, c − 1) inside their domain."""
        self.centre[:, : alpha.shape[1]] = alpha
        if not self.boxed:
            # The least sum that the largest multiplier allows, with the remainder for the own
            # class.
            total = alpha.sum(axis=1)
            sums = np.maximum(total, self.k * alpha.max(axis=1))
            self.centre[:, -1] = np.maximum(sums - total, 0.0)

    def project(self, f: Floats) -> Projection:
        """Return the multipliers at differences f, projected onto their domain."""
        raw = self.centre.copy()
        raw[:, : f.shape[1]] += self.sigma * (1.0 - f)
        found = Projection(
            np.empty(self.shape), np.empty(self.shape, np.int8), np.zeros(self.shape[0], np.int8)
        )
        if self.boxed:
            passes.project_box(raw, self.weight, found.full, found.state)
        else:
            order = (
                np.argsort(-raw, axis=1)
                if self.k > 1
                else np.empty((raw.shape[0], 0), dtype=np.intp)
            )
            passes.project_top(raw, order, self.weight, self.k, found.full, found.state, found.mode)
        return found

    def multipliers(self, response: Projection) -> Floats:
        """Return the multipliers of the differences, shape (n, c − 1)."""
        return np.ascontiguousarray(response.full[:, : self.scores.data.c - 1])

    def faces(self, response: Projection) -> Faces:
        """Return orthonormal vectors of the faces in which the projections end."""
        data = self.scores.data
        most = int((response.state == passes.FREE).sum()) + data.n
        owner, rows = np.empty(most, dtype=np.intp), np.empty((most, data.c))
        count = passes.face_rows(
            response.state, response.mode, data.codes, self.k, self.boxed, owner, rows
        )
        return Faces(owner[:count], rows[:count])


class FaceCurvature:
    """Second derivatives of an envelope."""

    def __init__(self, scores: ScoreSpace, sigma: float, faces: Faces) -> None:
        self.scores, self.sigma, self.faces = scores, sigma, faces
        self.n = scores.data.n
        self.vectors = -np.take_along_axis(faces.rows, scores.others[faces.owner], axis=1)

    def _sums(self, products: Floats) -> Floats:
        return np.asarray(
            np.bincount(self.faces.owner, weights=products, minlength=self.n), dtype=np.float64
        )

    def edge(self, k: int, j: int) -> list[tuple[Rows, Floats]]:
        """The observations whose faces join k and j."""
        h = -self.sigma * self._sums(self.faces.rows[:, k] * self.faces.rows[:, j])
        rows = np.flatnonzero(h)
        return [(rows, h[rows])]

    def leave_out(self, k: int, j: int, part: int, rows: NDArray[np.bool_]) -> None:
        """Do nothing: the multipliers are projections for any matrix that was factorised."""

    def apply(self, df: Floats) -> Floats:
        """σ times the projections of df."""
        image = np.zeros_like(df)
        passes.face_product(self.faces.owner, self.vectors, df, image)
        return self.sigma * image

    def vertex(self, k: int) -> Floats:
        """The squares of the coefficients of k."""
        return self.sigma * self._sums(self.faces.rows[:, k] ** 2)
