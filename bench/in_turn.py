"""Runs a bench program of two builds in turn (A B, B A, ...), and prints for each line the median of both
and the median of the pairs' ratios: bench/in_turn.py PAIRS BEFORE AFTER"""

import re
import statistics
import subprocess
import sys


def times(program):
    """Returns what each line measures, in nanoseconds: the first of a comparison, or the percentiles."""
    found, section = {}, ""
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        if comparison := re.match(r"(.*): A ([\d.]+) ns,", line):
            found[comparison[1]] = float(comparison[2])
        elif percentiles := re.match(r"  (.*): p50 ([\d.]+) µs, p99 ([\d.]+) µs", line):
            for name, value in zip(("p50", "p99"), percentiles.group(2, 3)):
                found[f"{section} {percentiles[1]}, {name}"] = float(value) * 1000
        else:
            section = line
    return found


def main():
    pairs, programs = int(sys.argv[1]), sys.argv[2:4]
    measured = {program: [] for program in programs}
    for pair in range(pairs):
        for program in programs if pair % 2 == 0 else reversed(programs):
            measured[program].append(times(program))
    before, after = (measured[program] for program in programs)
    for line in before[0]:
        if line in after[0]:
            one, other = ([run[line] for run in runs] for runs in (before, after))
            ratios = sorted(b / a for a, b in zip(one, other))
            print(
                f"{line}: before {statistics.median(one):.1f} ns, after {statistics.median(other):.1f} ns,"
                f" after/before {statistics.median(ratios):.3f} ({ratios[0]:.3f}–{ratios[-1]:.3f})"
                f" over {pairs} pairs"
            )


main()
