"""The one idea of the package: a statement, and a checker that encloses its optimum.

:mod:`~svmcvx.certificate.statement` defines statements, :mod:`~svmcvx.certificate.check` makes
certificates. The arithmetic below them: :mod:`~svmcvx.certificate.bounded` has numbers with a bound
on their error, :mod:`~svmcvx.certificate.rows` products with the rows of data and bounds of
eigenvalues, :mod:`~svmcvx.certificate.exactly` exact operations. The second checker imports none of
them.
"""

from svmcvx.certificate.bounded import EPS
from svmcvx.certificate.check import (
    SEARCHED,
    Certificate,
    Checked,
    CheckedParts,
    certificate_of_sum,
    check,
    check_parts,
    relative_gap,
    status_of,
)
from svmcvx.certificate.statement import (
    Dual,
    Evaluation,
    Kind,
    PartsEvaluation,
    SolverBound,
    Statement,
)

__all__ = ["EPS", "SEARCHED", "Certificate", "Checked", "CheckedParts", "Dual", "Evaluation"]
__all__ += ["Kind", "PartsEvaluation", "SolverBound", "Statement", "certificate_of_sum", "check"]
__all__ += ["check_parts", "relative_gap", "status_of"]
