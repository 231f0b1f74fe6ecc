"""Entry point of the command line; says what is missing when its extra is not installed."""

from __future__ import annotations

import sys

from svmcvx.errors import missing_extra


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from svmcvx.cli import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("typer", "rich", "click"):
            raise
        print(f"svmcvx: {missing_extra(error.name, 'cli')}", file=sys.stderr)  # noqa: T201 - no rich to print with
        return 2
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
