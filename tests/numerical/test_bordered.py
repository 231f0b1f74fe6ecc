"""Systems with a border against the whole matrix."""

import numpy as np
import pytest
import scipy.linalg as sl

from svmcvx.numerical import bordered_solution, semidefinite_solution


@pytest.mark.parametrize("positive", [False, True], ids=["corner of zero", "positive corner"])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_whole_system_is_solved(m, positive):
    rng = np.random.default_rng(m)
    rows, h, right = (
        rng.standard_normal((m + 3, m + 1)),
        rng.standard_normal(m),
        rng.standard_normal(m + 1),
    )
    whole = rows.T @ rows
    if not positive:
        whole[:m, m] = whole[m, :m] = h
        whole[m, m] = 0.0
    factor = sl.cho_factor(whole[:m, :m])
    x, t = bordered_solution(
        lambda columns: sl.cho_solve(factor, columns),
        whole[:m, m],
        right[:m],
        right[m],
        corner=whole[m, m],
    )
    np.testing.assert_allclose(whole @ np.append(x, t), right, rtol=1e-9, atol=1e-11)


def test_damping_keeps_a_singular_system_regular():
    # All of h lies in the columns of A, so that the exact pivot is zero.
    A = np.diag([1.0, 4.0])
    h = np.array([1.0, 2.0])
    x, t = bordered_solution(
        lambda columns: np.linalg.solve(A, columns),
        h,
        A @ [1.0, 1.0],
        3.0,
        corner=2.0,
        damping=1e-3,
    )
    assert t == 0.0
    np.testing.assert_allclose(x, [1.0, 1.0])
    _, t = bordered_solution(
        lambda columns: np.linalg.solve(A, columns), h, np.zeros(2), 1.0, corner=2.0, damping=1e-3
    )
    np.testing.assert_allclose(t, 1.0 / 2e-3)


@pytest.mark.parametrize("bordered", [False, True])
@pytest.mark.parametrize("equal", [0, 3], ids=["distinct rows", "equal rows"])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_semidefinite_systems_are_solved_by_nearly_the_shortest_vector(scale, equal, bordered):
    rng = np.random.default_rng(equal)
    rows = rng.standard_normal((4, 5)) * scale
    rows = np.vstack([rows, rows[:equal]])
    A, h = rows @ rows.T, np.where(np.arange(len(rows)) % 4 < 2, 1.0, -1.0)
    right = A @ rng.standard_normal(len(rows))
    found = semidefinite_solution(A, right, h if bordered else None, 2.0)
    whole = np.block([[A, h[:, None]], [h[None], np.zeros((1, 1))]]) if bordered else A
    values = np.append(right, 2.0) if bordered else right
    x, t = found
    np.testing.assert_allclose(A @ x + t * h, right, rtol=1e-10, atol=1e-12 * scale**2)
    if bordered:
        np.testing.assert_allclose(h @ x, 2.0, rtol=1e-12)
    if scale == 1.0:
        shortest = np.linalg.lstsq(whole, values)[0][: len(rows)]
        # Rounding, relative to what is added to the diagonal, is some thousandth.
        np.testing.assert_allclose(x, shortest, rtol=1e-9, atol=1e-2 if equal else 0.0)


def test_a_matrix_without_a_factor_has_no_solution():
    assert semidefinite_solution(np.diag([1.0, -1.0]), np.ones(2)) is None
