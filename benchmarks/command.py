"""The command line of the benchmarks."""

import argparse
import os

# Folder of data sets.
DATA = os.environ.get("SVMCVX_DATA")


def parser_of(text, **options):
    """A parser with an option for each name, of the type of its default: False is a switch, None a
    text.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in options.items():
        how = {"type": str if default is None else type(default), "default": default}
        how = {"action": "store_true"} if default is False else how
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    return parser
