#!/usr/bin/env python3
"""A program whose work changes, under fixed and adaptive reservations, beside spinning threads.

    phases.py PUNCTUAL [--seconds S]     all reservations in turn, with a table at the end
    phases.py --program S                the program alone: three phases of S seconds each
"""

import argparse
import json
import os
import subprocess
import sys
import time

PERIOD = 0.020
# The processor time of a job in each phase, in seconds.
PHASES = [0.001, 0.005, 0.002]

RESERVATIONS = {
    "none": None,
    "fixed, 1.5 ms": ["--reserve", "1500us/20ms"],
    "fixed, 8 ms": ["--reserve", "8ms/20ms"],
    "adaptive, 0.5 to 8 ms": ["--reserve", "1500us/20ms", "--adapt", "500us..8ms"],
}


def program(seconds):
    """Does a job every period, and prints how many of each phase ended after the next release."""
    release = time.monotonic() + 0.1
    for work in PHASES:
        late, longest, jobs = 0, 0.0, int(seconds / PERIOD)
        for _ in range(jobs):
            time.sleep(max(0.0, release - time.monotonic()))
            end = time.thread_time() + work
            while time.thread_time() < end:
                pass
            response = time.monotonic() - release
            late += response > PERIOD
            longest = max(longest, response)
            # A job that is late takes no time from the next one's.
            release = max(release + PERIOD, time.monotonic())
        print(json.dumps({"work_ms": work * 1e3, "jobs": jobs, "late": late, "longest_ms": longest * 1e3}))


def run(punctual, options, seconds):
    """Runs the program, and returns its phases, the lines of `run`, and the budgets with their times."""
    words = [sys.executable, os.path.abspath(__file__), "--program", str(seconds)]
    if options is not None:
        words = [punctual, "run", "--json", *options, "--", *words]
    began = time.monotonic()
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    budgets, summary = [], {}
    for line in running.stderr:
        if line.startswith("{"):
            summary = json.loads(line)
            budgets.append((round(time.monotonic() - began, 1), summary.get("budget_ns")))
    phases = [json.loads(line) for line in running.stdout]
    running.wait()
    return phases, budgets[:-1], summary


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("punctual", nargs="?")
    arguments.add_argument("--seconds", type=float, default=6.0)
    arguments.add_argument("--program", type=float)
    given = arguments.parse_args()
    if given.program is not None:
        return program(given.program)
    if given.punctual is None:
        arguments.error("name the program punctual, for example target/release/punctual")
    spins = [sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(spins) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        for name, options in RESERVATIONS.items():
            phases, budgets, summary = run(given.punctual, options, given.seconds)
            print(name)
            for phase in phases:
                print("  {work_ms:.0f} ms: {late} of {jobs} late, longest {longest_ms:.1f} ms".format(**phase))
            if summary:
                offered, inside = summary["offered_ns"] / 1e9, (summary["inside_ns"] or 0) / 1e9
                print(f"  offered {offered:.2f} s, used of it {inside:.2f} s, {100 * inside / offered:.0f} %")
            for at, budget in budgets:
                print(f"  {at:5.1f} s: {budget / 1e6:.2f} ms")
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    return None


if __name__ == "__main__":
    main()
