"""A boundary that moves with its hyper-parameters: in a notebook (extra ``explore``), and as a page
that needs no server.
"""

from typing import TYPE_CHECKING, NoReturn

from svmcvx.errors import no_attribute
from svmcvx.explorer.answers import View
from svmcvx.explorer.explorer import Explorer, explore
from svmcvx.explorer.plane import Plane
from svmcvx.explorer.sliders import Slider

__all__ = ["Explorer", "Plane", "Slider", "View", "explore"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise no_attribute(__name__, name, __all__)
