"""Simulates one task system with SimSo under rate-monotonic priorities on one processor.

Reads from standard input one line with the duration, then one line a task with its period, wcet and
first release, all in nanoseconds. Prints the number of completed jobs and the processor time
of the simulation in seconds, without starting Python and without building the model.
"""

import sys
import time
import types

try:
    import imp  # noqa: F401
except ImportError:
    # SimSo 0.8 imports it only for schedulers in files; Python 3.12 no longer has it.
    sys.modules["imp"] = types.ModuleType("imp")

from simso.configuration import Configuration
from simso.core import Model

NANOS_PER_MS = 1_000_000


def main():
    lines = sys.stdin.read().split("\n")
    configuration = Configuration()
    configuration.cycles_per_ms = NANOS_PER_MS
    configuration.duration = int(lines[0])
    for at, line in enumerate(filter(None, lines[1:])):
        period, wcet, phase = (int(field) / NANOS_PER_MS for field in line.split())
        configuration.add_task(
            name=f"task {at}",
            identifier=at,
            period=period,
            activation_date=phase,
            wcet=wcet,
            deadline=period,
        )
    configuration.add_processor(name="CPU", identifier=1)
    # Its rate-monotonic scheduler for a single processor.
    configuration.scheduler_info.clas = "simso.schedulers.RM_mono"
    configuration.check_all()
    model = Model(configuration)
    start = time.process_time()
    model.run_model()
    seconds = time.process_time() - start
    jobs = sum(job.end_date is not None for task in model.task_list for job in task.jobs)
    print(jobs, seconds)


main()
