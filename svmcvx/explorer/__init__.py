"""A boundary that moves with its hyper-parameters: in a notebook, and as a page of its own."""

from svmcvx.explorer.explorer import Explorer, Plane, Slider, View, explore

__all__ = ["Explorer", "Plane", "Slider", "View", "explore"]
