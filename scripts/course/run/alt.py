"""Every kernel that we start runs this ahead of the notebook: pictures tell what they show.

It goes into the output's metadata, where nbconvert reads it, and says what the figure says:
titles, axes, what is in the legend, and the words in a drawing without axes.
"""


def _describe_figures() -> None:
    import sys

    from IPython import get_ipython

    shell = get_ipython()

    def plain(text: str) -> str:
        return " ".join(text.split()).rstrip(".")

    def of_axes(axes) -> list[str]:
        parts = [plain(axes.get_title(side)) for side in ("left", "center", "right")]
        if axes.axison:
            named = {"x": axes.get_xlabel(), "y": axes.get_ylabel()}
            parts += [f"{axis}: {plain(name)}" for axis, name in named.items() if name]
        else:
            parts.append(", ".join(plain(text.get_text()) for text in axes.texts))
        return parts

    def alt(figure) -> str:
        over_all = getattr(figure, "get_suptitle", str)  # from matplotlib 3.8 on
        parts = [plain(over_all())]
        labels = []
        for axes in figure.axes:
            parts += of_axes(axes)
            labels += [plain(label) for label in axes.get_legend_handles_labels()[1]]
        if labels:
            parts.append("Shown: " + ", ".join(dict.fromkeys(labels)))
        return ". ".join(dict.fromkeys(filter(None, parts))) + "."

    def prepare() -> None:
        """Ahead of the callback that shows a cell's figures, which has set how they are drawn."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if not pyplot or not pyplot.get_fignums():
            return
        from matplotlib.figure import Figure

        formatter = shell.display_formatter.formatters["image/png"]
        draw = formatter.lookup_by_type(Figure)
        if not hasattr(draw, "described"):

            def described(figure):
                return draw(figure), {"alt": alt(figure)}

            described.described = True
            formatter.for_type(Figure, described)

    shell.events.register("post_execute", prepare)


_describe_figures()
del _describe_figures
