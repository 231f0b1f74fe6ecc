from svmcvx import certificate as certificate
from svmcvx import data as data
from svmcvx import datasets as datasets
from svmcvx import estimators as estimators
from svmcvx import experiments as experiments
from svmcvx import fast as fast
from svmcvx import feature_space as feature_space
from svmcvx import formulations as formulations
from svmcvx import guarantees as guarantees
from svmcvx import kernels as kernels
from svmcvx import losses as losses
from svmcvx import model as model
from svmcvx import plot as plot
from svmcvx import proofs as proofs
from svmcvx import row_blocks as row_blocks
from svmcvx import solution as solution
from svmcvx import synthetic as synthetic
from svmcvx import system as system
from svmcvx import theory as theory
from svmcvx import torch as torch
from svmcvx.certificate import Certificate as Certificate
from svmcvx.errors import BuildError as BuildError
from svmcvx.errors import DataError as DataError
from svmcvx.errors import NotCertified as NotCertified
from svmcvx.errors import SolverFailed as SolverFailed
from svmcvx.errors import SolverUnavailable as SolverUnavailable
from svmcvx.errors import SvmcvxError as SvmcvxError
from svmcvx.estimators import certify as certify
from svmcvx.estimators.conic_loss import ConicSVMClassifier as ConicSVMClassifier
from svmcvx.estimators.indicator import L0SVMClassifier as L0SVMClassifier
from svmcvx.estimators.indicator import RampSVMClassifier as RampSVMClassifier
from svmcvx.estimators.indicator import ZeroOneSVMClassifier as ZeroOneSVMClassifier
from svmcvx.estimators.margin import PSVMClassifier as PSVMClassifier
from svmcvx.estimators.margin_distribution import ODMClassifier as ODMClassifier
from svmcvx.estimators.margin_distribution import ODMLClassifier as ODMLClassifier
from svmcvx.estimators.multiclass import M3SVMClassifier as M3SVMClassifier
from svmcvx.estimators.multiclass import MulticlassSVMClassifier as MulticlassSVMClassifier
from svmcvx.experiments import certified_path as certified_path
from svmcvx.experiments import certified_select as certified_select
from svmcvx.experiments import compare as compare
from svmcvx.experiments import select as select
from svmcvx.experiments import study as study
from svmcvx.explorer import Explorer as Explorer
from svmcvx.explorer import explore as explore
from svmcvx.formulations.base import BinaryStatement as BinaryStatement
from svmcvx.formulations.base import Formulation as Formulation
from svmcvx.formulations.conic_loss.problems import conic_fixed_gamma as conic_fixed_gamma
from svmcvx.formulations.conic_loss.problems import conic_sdp as conic_sdp
from svmcvx.formulations.indicator.problems import l0_mio as l0_mio
from svmcvx.formulations.indicator.problems import ramp_mio as ramp_mio
from svmcvx.formulations.indicator.problems import zero_one_mio as zero_one_mio
from svmcvx.formulations.margin_distribution_problems import odm_dual as odm_dual
from svmcvx.formulations.margin_distribution_problems import odm_primal as odm_primal
from svmcvx.formulations.margin_distribution_problems import odml_dual as odml_dual
from svmcvx.formulations.margin_distribution_problems import odml_hard_margin as odml_hard_margin
from svmcvx.formulations.margin_distribution_problems import odml_primal as odml_primal
from svmcvx.formulations.margin_problems import hard_margin_dual as hard_margin_dual
from svmcvx.formulations.margin_problems import psvm_dual as psvm_dual
from svmcvx.formulations.margin_problems import psvm_primal as psvm_primal
from svmcvx.formulations.multiclass.problems import crammer_singer as crammer_singer
from svmcvx.formulations.multiclass.problems import m3svm as m3svm
from svmcvx.formulations.multiclass.problems import m3svm_hard_margin as m3svm_hard_margin
from svmcvx.formulations.multiclass.problems import msvm as msvm
from svmcvx.formulations.multiclass.problems import multiclass as multiclass
from svmcvx.formulations.multiclass.problems import multinomial_lr as multinomial_lr
from svmcvx.formulations.multiclass.problems import sparse_multinomial_lr as sparse_multinomial_lr
from svmcvx.formulations.multiclass.problems import topk_svm as topk_svm
from svmcvx.formulations.multiclass.problems import weston_watkins as weston_watkins
from svmcvx.formulations.problem import FormulationProblem as FormulationProblem
from svmcvx.guarantees import Guarantee as Guarantee
from svmcvx.guarantees import Interval as Interval
from svmcvx.guarantees import guarantee as guarantee
from svmcvx.kernels import RBF as RBF
from svmcvx.kernels import Exponential as Exponential
from svmcvx.kernels import Kernel as Kernel
from svmcvx.kernels import Laplacian as Laplacian
from svmcvx.kernels import Linear as Linear
from svmcvx.kernels import Polynomial as Polynomial
from svmcvx.kernels import Precomputed as Precomputed
from svmcvx.kernels import Sigmoid as Sigmoid
from svmcvx.model import KernelModel as KernelModel
from svmcvx.model import LinearModel as LinearModel
from svmcvx.model import Model as Model
from svmcvx.model import MulticlassModel as MulticlassModel
from svmcvx.model import OneVsModel as OneVsModel
from svmcvx.model import load_model as load_model
from svmcvx.proofs import Verified as Verified
from svmcvx.proofs import verify as verify
from svmcvx.row_blocks import RowBlocks as RowBlocks
from svmcvx.solution import Attempt as Attempt
from svmcvx.solution import Solution as Solution
from svmcvx.solution import Status as Status
from svmcvx.solution import Timings as Timings
from svmcvx.solve import available_solvers as available_solvers
from svmcvx.solve import solve as solve

__version__: str

__all__ = [
    "RBF",
    "Certificate",
    "ConicSVMClassifier",
    "Formulation",
    "FormulationProblem",
    "Kernel",
    "L0SVMClassifier",
    "M3SVMClassifier",
    "Model",
    "MulticlassSVMClassifier",
    "ODMClassifier",
    "ODMLClassifier",
    "PSVMClassifier",
    "Polynomial",
    "RampSVMClassifier",
    "RowBlocks",
    "Solution",
    "SvmcvxError",
    "ZeroOneSVMClassifier",
    "available_solvers",
    "certified_path",
    "certified_select",
    "certify",
    "compare",
    "conic_fixed_gamma",
    "conic_sdp",
    "datasets",
    "explore",
    "fast",
    "guarantee",
    "hard_margin_dual",
    "kernels",
    "l0_mio",
    "load_model",
    "m3svm",
    "multiclass",
    "odm_dual",
    "odm_primal",
    "odml_dual",
    "odml_primal",
    "plot",
    "psvm_dual",
    "psvm_primal",
    "ramp_mio",
    "select",
    "solve",
    "study",
    "synthetic",
    "verify",
    "zero_one_mio",
]
