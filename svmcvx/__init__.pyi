from svmcvx import datasets, estimators, fast, plot, synthetic, theory
from svmcvx import torch as torch
from svmcvx.certificate import Certificate
from svmcvx.errors import (
    BuildError,
    DataError,
    NotCertified,
    SolverFailed,
    SolverUnavailable,
    SvmcvxError,
)
from svmcvx.estimators import certify
from svmcvx.estimators.conic_loss import ConicSVMClassifier
from svmcvx.estimators.indicator import L0SVMClassifier, RampSVMClassifier, ZeroOneSVMClassifier
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.estimators.margin_distribution import ODMClassifier, ODMLClassifier
from svmcvx.estimators.multiclass import M3SVMClassifier, MulticlassSVMClassifier
from svmcvx.experiments import certified_path, certified_select, compare, select, study
from svmcvx.explorer import Explorer, explore
from svmcvx.formulations.base import BinaryStatement, Formulation
from svmcvx.formulations.conic_loss.problems import conic_fixed_gamma, conic_sdp
from svmcvx.formulations.indicator.problems import l0_mio, ramp_mio, zero_one_mio
from svmcvx.formulations.margin_distribution_problems import (
    odm_dual,
    odm_primal,
    odml_dual,
    odml_hard_margin,
    odml_primal,
)
from svmcvx.formulations.margin_problems import hard_margin_dual, psvm_dual, psvm_primal
from svmcvx.formulations.multiclass.problems import (
    crammer_singer,
    m3svm,
    m3svm_hard_margin,
    msvm,
    multiclass,
    multinomial_lr,
    sparse_multinomial_lr,
    topk_svm,
    weston_watkins,
)
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.guarantees import Guarantee, Interval, guarantee
from svmcvx.kernels import (
    RBF,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
)
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel, OneVsModel, load_model
from svmcvx.proofs import Verified, verify
from svmcvx.row_blocks import RowBlocks
from svmcvx.solution import Attempt, Solution, Status, Timings
from svmcvx.solve import available_solvers, solve

__version__: str

__all__ = [
    "RBF",
    "Attempt",
    "BinaryStatement",
    "BuildError",
    "Certificate",
    "ConicSVMClassifier",
    "DataError",
    "Explorer",
    "Exponential",
    "Formulation",
    "FormulationProblem",
    "Guarantee",
    "Interval",
    "Kernel",
    "KernelModel",
    "L0SVMClassifier",
    "Laplacian",
    "Linear",
    "LinearModel",
    "M3SVMClassifier",
    "Model",
    "MulticlassModel",
    "MulticlassSVMClassifier",
    "NotCertified",
    "ODMClassifier",
    "ODMLClassifier",
    "OneVsModel",
    "PSVMClassifier",
    "Polynomial",
    "Precomputed",
    "RampSVMClassifier",
    "RowBlocks",
    "Sigmoid",
    "Solution",
    "SolverFailed",
    "SolverUnavailable",
    "Status",
    "SvmcvxError",
    "Timings",
    "Verified",
    "ZeroOneSVMClassifier",
    "available_solvers",
    "certified_path",
    "certified_select",
    "certify",
    "compare",
    "conic_fixed_gamma",
    "conic_sdp",
    "crammer_singer",
    "datasets",
    "estimators",
    "explore",
    "fast",
    "guarantee",
    "hard_margin_dual",
    "l0_mio",
    "load_model",
    "m3svm",
    "m3svm_hard_margin",
    "msvm",
    "multiclass",
    "multinomial_lr",
    "odm_dual",
    "odm_primal",
    "odml_dual",
    "odml_hard_margin",
    "odml_primal",
    "plot",
    "psvm_dual",
    "psvm_primal",
    "ramp_mio",
    "select",
    "solve",
    "sparse_multinomial_lr",
    "study",
    "synthetic",
    "theory",
    "topk_svm",
    "verify",
    "weston_watkins",
    "zero_one_mio",
]
