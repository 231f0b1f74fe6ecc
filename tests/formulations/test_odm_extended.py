"""ODM and ODML with added constraints, and the rules that must not depend on what was computed
before.
"""

import numpy as np
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import LinearSpace
from svmcvx.formulations.margin_distribution import ODM, ODML, MarginHessian, ODMLHardMargin
from tests.conftest import make_data

X, Y = make_data(n=36)
RBF = sx.RBF(0.4)
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.2}
BLEND = {"lam1": 0.8, "lam2": 0.3, "C": 4.0}


# No rule depends on what was computed before


def wide(seed=7):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(sp.random_array((40, 60), density=0.2, rng=rng))
    return A, np.where(A @ rng.normal(size=60) > 0, 1, -1)


def test_repair_of_a_dual_point_does_not_depend_on_history():
    A, y = wide()
    data = binary_data(A, y)
    alpha = np.random.default_rng(1).uniform(0, 4.0 / 40, 40)
    fresh, used = (ODML(LinearSpace(data, "none"), **BLEND) for _ in range(2))
    assert used.curvature.triangle.shape == (40, 40)
    assert fresh.curvature.by_products
    assert used.curvature.by_products
    one, other = fresh.repair({"alpha": alpha}), used.repair({"alpha": alpha})
    np.testing.assert_array_equal(one["tau"], other["tau"])
    # Conjugate gradients are as good as the factor, to their residual.
    exact = used.variance_multipliers(used.margins(alpha))
    np.testing.assert_allclose(one["tau"], exact, atol=1e-8 * np.abs(exact).max())


def test_the_curvature_by_products_solves_the_same_system():
    A, y = wide()
    data = binary_data(sp.csr_array(A[:, :20]), y)
    space = LinearSpace(data, "none")
    curvature = MarginHessian(space, np.full(40, 1 / 40), 3.0)
    v = np.random.default_rng(2).standard_normal(40)
    np.testing.assert_allclose(
        curvature.solve_by_products(v), curvature.solve(space.X.T @ v), rtol=1e-7, atol=1e-10
    )


def test_statements_at_other_values_share_the_factor_while_it_holds():
    space = LinearSpace(binary_data(X, Y), "none")
    for statement in (ODML(space, **BLEND), ODMLHardMargin(space, 0.8, 0.3)):
        assert statement.at(lam2=5.0).curvature is statement.curvature
        assert statement.at(lam2=5.0).lam2 == 5.0
        changed = statement.at(lam1=2.0)
        assert changed.curvature is not statement.curvature
        assert changed.curvature.lam1 == 2.0
    assert ODM(space, **BAND).at(D=0.5).hyperparameters["D"] == 0.5
