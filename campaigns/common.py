"""What the long checks by hand share: seeded instances one after the other, counted by how they
end.
"""

import argparse
import collections
import time

# Tolerance of the second solve of a problem, to which a first one is held.
FINE = 1e-12
BAD = ("MISS", "FALSE", "WRONG", "RAW ERROR")


def options_of(text, count, *more):
    """Parse the command line: how many instances, from which on, or the repetition of one; `more`
    are names and settings of further arguments.
    """
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="repeat one instance")
    for name, settings in more:
        parser.add_argument(name, **settings)
    return parser.parse_args()


def judged(check, options, *, quiet=False):
    """Judge the instances, and print those that end badly; return how many ended how, sums of
    numbers, and the seeds of the bad ones.

    `check` takes a seed and returns what was solved, how it ended, the numbers to sum up by name,
    and why.
    """
    ends, sums, seeds = collections.Counter(), collections.Counter(), []
    for seed in range(options.first, options.first + options.count):
        try:
            label, end, numbers, why = check(seed)
        except Exception as error:
            label, end, numbers, why = "?", "RAW ERROR", {}, f"{type(error).__name__}: {error}"
        ends[end] += 1
        sums.update(numbers)
        if end in BAD:
            seeds.append(seed)
            if not quiet:
                print(f"seed {seed}: {label}: {end}: {why[:300]}", flush=True)
    return dict(ends), sums, seeds


def run(check, options, instance=None, *, quiet=False):
    """Repeat one instance, or judge many and print a summary; return 1 if one ends badly."""
    if options.seed is not None:
        if instance is not None:
            print(*instance(options.seed), sep="\n")
        print(*check(options.seed), sep="; ")
        return 0
    began = time.perf_counter()
    ends, sums, seeds = judged(check, options, quiet=quiet)
    counted = "".join(f", {number} {name}" for name, number in sums.items())
    print(
        f"{options.count} instances from {options.first} on in {time.perf_counter() - began:.0f} s:"
        f" {ends}{counted}; bad seeds {seeds[:50]}"
    )
    return int(bool(seeds))


SHRINK = ("--shrink", {"type": float, "help": "the control: the radius times this"})
