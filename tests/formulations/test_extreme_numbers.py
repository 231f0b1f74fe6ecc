"""Numbers at the ends of their range end in an interval with an honest status, or an error."""

import numpy as np
import pytest

import svmcvx as sx
from campaigns.extreme import check
from tests.conftest import make_data

X, Y = make_data(seed=0, n=12, d=2)


@pytest.mark.parametrize("seed", [*range(30), 225, 683])
def test_extreme_numbers_end_in_an_interval_or_an_error_of_the_package(seed):
    call, end, _, why = check(seed)
    assert end not in ("FALSE", "MISS"), (call, why)


@pytest.mark.parametrize("build", [sx.odm_primal, sx.odml_dual, sx.fast.odm, sx.fast.odml])
def test_a_weight_whose_share_underflows_is_refused(build):
    weight = np.ones(12)
    weight[0] = 1e-300
    with pytest.raises(sx.DataError, match=r"the share 9\.09e-302 of the sum of weights"):
        build(X, Y, sample_weight=weight)
