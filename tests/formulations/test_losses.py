"""The losses: values by hand, limits, derivatives, and the identities that the conic loss is made
of.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from svmcvx import losses
from svmcvx.formulations.multiclass.losses import LogisticSum
from svmcvx.losses import conic_loss

U = np.array([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])

BY_HAND = {
    "slack": [4.0, 2.0, 1.5, 1.0, 0.5, 0.0, 0.0],
    "ramp": [2.0, 2.0, 1.5, 1.0, 0.5, 0.0, 0.0],
    "zero_one": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0],
}

positive = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("name", BY_HAND)
def test_values_by_hand(name):
    np.testing.assert_array_equal(getattr(losses, name)(U), BY_HAND[name])


def test_the_logistic_loss_at_known_points():
    assert LogisticSum().value(np.array([[0.0]])) == pytest.approx(np.log(2))
    far = np.array([[-1000.0], [1000.0]])
    np.testing.assert_allclose(LogisticSum().value(far), [1000.0, 0.0])


@given(u=st.floats(-5, 3), gamma=positive, lam=positive)
def test_the_conic_loss_is_its_perspective_form_minimised_over_z(u, gamma, lam):
    a = 1 - u

    def perspective(z):
        above, below = max(a, 0) ** 2, max(-a, 0) ** 2
        return (
            lam * z
            - gamma * a**2
            + gamma * (above / z if above else 0)
            + gamma * (below / (1 - z) if below else 0)
        )

    found = minimize_scalar(
        perspective, bounds=(0, 1), method="bounded", options={"xatol": 1e-12}
    ).fun
    ends = [perspective(z) for z in (1e-300, 1.0) if np.isfinite(z) and (z < 1 or a >= 0)]
    assert conic_loss(np.array([u]), gamma, lam)[0] == pytest.approx(
        min(found, *ends), rel=1e-5, abs=1e-6 * lam
    )


@given(gamma=positive, lam=positive)
def test_the_conic_loss_is_below_the_zero_one_loss_grows_with_gamma_and_is_convex_plus_a_square(
    gamma, lam
):
    u = np.linspace(-4, 3, 141)
    loss = conic_loss(u, gamma, lam)
    assert (loss <= lam * losses.zero_one(u) * (1 + 1e-12)).all()
    assert (loss >= 0).all()
    assert (conic_loss(u, 2 * gamma, lam) >= loss - 1e-12 * lam).all()
    convex = loss + gamma * (1 - u) ** 2
    assert (np.diff(convex, 2) >= -1e-9 * convex.max()).all()


def test_the_conic_loss_takes_one_gamma_and_one_height_an_observation():
    u, gamma, lam = np.array([0.5, 0.5, 0.5]), np.array([0.0, 1.0, 1e9]), np.array([1.0, 1.0, 3.0])
    np.testing.assert_allclose(conic_loss(u, gamma, lam), [0.0, 0.75, 3.0])
