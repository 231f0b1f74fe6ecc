"""The widget of a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from svmcvx.display import interval
from svmcvx.errors import missing_extra
from svmcvx.explorer.rest import AtRest

if TYPE_CHECKING:
    from svmcvx.explorer.moving_model import MovingModel
    from svmcvx.explorer.picture import Picture
    from svmcvx.guarantees import Interval

__all__ = ["make_widget", "numbers"]


def numbers(
    explorer: MovingModel, guaranteed: tuple[Interval | None, str] | None
) -> list[tuple[str, str]]:
    """Return what is written below the picture, as pairs of name and value."""
    view = explorer.view
    found = view.certificate
    lower, upper = interval(found.lower, found.upper)
    rows = "test rows" if explorer.has_test else "training rows"
    if guaranteed is None:
        proved = "…"
    elif guaranteed[0] is None:
        proved = f"not proved: {guaranteed[1].partition(':')[0]}"
    else:
        proved = str(guaranteed[0])
    return [
        ("optimum", f"between {lower} and {upper}, relative gap {found.gap:.1e}"),
        ("support vectors", f"{view.support.size} of {explorer.X.shape[0]}"),
        (f"accuracy on {rows}", f"{view.accuracy:.4g}"),
        ("accuracy of every optimal machine", proved),
    ]


def make_widget(explorer: MovingModel, picture: Picture) -> Any:
    """Return a box with the sliders, the picture and the numbers."""
    try:
        import ipywidgets as widgets
    except ImportError:
        raise missing_extra("ipywidgets", "explore") from None
    style: dict[str, Any] = {
        "style": {"description_width": "4rem"},
        "layout": widgets.Layout(width="100%", max_width="40rem"),
    }
    controls = {}
    for slider in explorer.sliders:
        options = list(zip(slider.labels, slider.values, strict=True))
        make = widgets.Dropdown if slider.is_choice else widgets.SelectionSlider
        controls[slider.name] = make(
            options=options, index=slider.start, description=slider.symbol, **style
        )
    image = widgets.Image(format="png", layout=widgets.Layout(width="100%", max_width="40rem"))
    text, at_rest = widgets.HTML(), AtRest()

    def write(guaranteed: tuple[Interval | None, str] | None) -> None:
        rows = "".join(
            f"<tr><td>{escape(name)}&emsp;</td><td>{escape(value)}</td></tr>"
            for name, value in numbers(explorer, guaranteed)
        )
        caption = (
            f"<small>{escape(explorer.plane.caption)}</small>" if explorer.plane.caption else ""
        )
        text.value = f"<table>{rows}</table>{caption}"

    def show(_: Any = None) -> None:
        if "gamma" in controls and "kernel" in controls:
            controls["gamma"].disabled = controls["kernel"].value == "linear"
        explorer.move(**{name: control.value for name, control in controls.items()})
        image.value = picture.update()
        write(None)
        at_rest.begin([lambda: write(explorer.guaranteed), *explorer.ahead()])

    for control in controls.values():
        control.observe(show, names="value")
    show()
    # A document with a picture of the widget has all numbers.
    write(explorer.guaranteed)
    return widgets.VBox([*controls.values(), image, text])
