"""Real-time guarantees for periodic work on stock Linux.

``admit`` decides whether a contract fits on a host, ``simulate`` runs it in virtual time, ``start``
and ``run`` put programs under reservations, ``reserve`` the calling thread, ``constraint`` promises
it time once,
``channel`` sends and receives messages with a promised delay, ``why`` and ``report`` judge a trace,
``verify`` runs a contract and judges its promises,
and ``doctor`` says what this host can promise. Each answer has the keys that the command of that
name prints with ``--json``; keys that end in ``_ns`` are nanoseconds.

>>> import punctual_rt
>>> answer = punctual_rt.admit(text='''
... [[task]]
... name = "mixer"
... period = "10ms"
... wcet = "2ms"
... ''', profile="ideal")
>>> answer.admitted, answer.tasks[0].response_time_bound_ns
(True, 2000000)
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import signal as _signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple, TypeAlias, TypeVar

from . import _native
from ._native import BadInput, CannotHere

__all__ = [
    "Answer",
    "BadInput",
    "CannotHere",
    "Channel",
    "Constraint",
    "Page",
    "Program",
    "Received",
    "Refused",
    "Reserved",
    "Simulated",
    "admit",
    "channel",
    "constraint",
    "doctor",
    "report",
    "reserve",
    "run",
    "simulate",
    "start",
    "verify",
    "why",
]

Time: TypeAlias = str | timedelta | int
"""A time: a text such as ``"2ms"``, a ``timedelta``, or whole nanoseconds."""

StrPath: TypeAlias = str | os.PathLike[str]

BROKER = "/run/punctual/broker.sock"
"""The socket of this host's broker."""


class Answer(dict[str, Any]):
    """An answer. Its keys are attributes as well, and Jupyter shows it as tables."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"the answer has no {name}; it has {known}") from None

    def _repr_html_(self) -> str:
        tables, rest = [], {}
        for key, value in self.items():
            rows = value if isinstance(value, list) else []
            if rows and all(isinstance(row, Mapping) for row in rows):
                tables.append(_table(key, rows))
            elif isinstance(value, Mapping):
                tables.append(_table(key, [value]))
            else:
                rest[key] = value
        return (_table("", [rest]) if rest else "") + "".join(tables)


class Page(Answer):
    """An answer with the page that ``punctual report`` makes: timeline, late jobs, histograms.

    Jupyter shows the page. A copy, or what was pickled, is an ``Answer`` without a page.
    """

    _native: _native.Page

    def to_html(self) -> str:
        """Returns the page, which loads nothing from the network.

        It contains the contract, this process's command line and what the host says of itself.
        """
        return self._native.to_html()

    def _repr_html_(self) -> str:
        # In a frame of its own, whose script reaches nothing of the notebook.
        page = html.escape(self.to_html())
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'

    def __reduce__(self) -> tuple[type[Answer], tuple[dict[str, Any]]]:
        return Answer, (dict(self),)


class Simulated(Page):
    """The outcome of ``simulate``. Jupyter shows its tables, and the page with the plots."""

    def _repr_html_(self) -> str:
        return Answer._repr_html_(self) + super()._repr_html_()


_P = TypeVar("_P", bound=Page)


def _page(kind: type[_P], text: str, native: _native.Page) -> _P:
    page = kind(_answer(text))
    page._native = native
    return page


def _table(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(key, row.get(key)))}</td>" for key in keys) + "</tr>"
        for row in rows
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if key.endswith("_ns") and isinstance(value, int):
        return f"{value / 1e6:g} ms"
    return value if isinstance(value, str) else json.dumps(value)


def _answer(text: str) -> Answer:
    answer = json.loads(text, object_hook=Answer)
    assert isinstance(answer, Answer)
    return answer


class Refused(Exception):
    """The request is refused. The text has the numbers, and what would be admitted instead.

    The attributes are the keys of ``admit(...).refusal``. A number that does not apply is ``None``.

    >>> try:
    ...     start(["player"], "19.9ms", "20ms")                              # doctest: +SKIP
    ... except Refused as refused:
    ...     for offer in refused.counter_offers:
    ...         print(offer.axis, offer["from"], "->", offer.to, offer.unit)
    """

    test: str | None
    """The test that failed, such as ``"response-time"``, ``"quota"`` or ``"kernel"``."""
    resource: str | None
    """The scarce resource, such as ``"processor time"``; ``None`` if a broker refused."""
    entry: str | None
    """The entry of a contract that failed the test."""
    shortfall_ns: int | None
    """The missing time, in nanoseconds."""
    shortfall_bytes: int | None
    """The missing memory, in bytes."""
    shortfall_ppm: int | None
    """The missing share of a CPU, in parts per million; of a broker only."""
    counter_offers: list[Answer]
    """What would be admitted: each changes one number, ``axis``, from ``offer["from"]`` to
    ``offer.to``, both in ``offer.unit``."""
    counter_offers_of_two: list[list[Answer]]
    """Pairs of changes that would be admitted together, where one number is not enough."""
    fits_without: list[Answer]
    """Entries (``entry`` and ``kind``) without which the rest of a contract would be admitted."""

    def __init__(self, message: str, numbers: str = "{}") -> None:
        super().__init__(message)
        of = _answer(numbers)
        self.test = of.get("test")
        self.resource = of.get("resource")
        self.entry = of.get("entry")
        self.shortfall_ns = of.get("shortfall_ns")
        self.shortfall_bytes = of.get("shortfall_bytes")
        self.shortfall_ppm = of.get("shortfall_ppm")
        self.counter_offers = of.get("counter_offers", [])
        self.counter_offers_of_two = of.get("counter_offers_of_two", [])
        self.fits_without = of.get("fits_without", [])


def _time(time: Time) -> str:
    if isinstance(time, timedelta):
        micros = time // timedelta(microseconds=1)
        return f"{micros}us"
    return time if isinstance(time, str) else f"{time}ns"


def _reservation(budget: Time, period: Time) -> str:
    return f"{_time(budget)}/{_time(period)}"


def admit(
    contract: StrPath | None = None,
    *,
    text: str | None = None,
    profile: StrPath | None = None,
    explain: bool = False,
) -> Answer:
    """Decides whether a contract fits on a host, with the numbers or a refusal and what would fit.

    The contract is a file (TOML, or rt-app's JSON) or a ``text``. ``profile`` is a host profile, or
    ``"ideal"`` for a host on which switches are free; by default it is the one measured here.
    ``answer.admitted`` says the outcome, and ``answer.refusal`` the reason. An explanation says how
    far each number could grow, and takes several times as long.

    Raises ``BadInput``, with the position, if the contract is not valid.
    """
    return _answer(_native.admit(contract, text, profile, explain))


def simulate(
    contract: StrPath | None = None,
    *,
    text: str | None = None,
    profile: StrPath | None = None,
    length: Time | None = None,
    seed: int | None = None,
    arrivals: Literal["periodic", "sporadic", "bursty", "adversarial"] | None = None,
) -> Simulated:
    """Runs a contract under its own policy in virtual time, for 10 s of it unless ``length`` says.

    With a ``seed`` arrivals are sporadic and execution times drawn; the same seed gives the same
    run. A refused contract on one CPU runs all the same: ``answer.admitted`` says so.

    Jupyter plots the run, and ``to_html()`` returns the page of ``punctual simulate --report``; the
    run is repeated for it. Raises ``BadInput`` for a contract that is not valid or a run that would
    take too long, and ``Refused`` if nothing says what runs where.
    """
    until = None if length is None else _time(length)
    return _page(Simulated, *_native.simulate(contract, text, profile, until, seed, arrivals))


def report(trace: StrPath, *, profile: StrPath | None = None) -> Page:
    """Judges a trace file: whether each promise of the run was kept, with the plots of the run.

    ``answer.tables.promises`` has a row for each promise, whose ``verdict`` is ``"kept"``,
    ``"broken"`` or ``"not judgeable"``; ``answer.promises_broken`` counts them. Of a damaged trace it
    shows the intact parts, and ``answer.is_whole`` is false. The contract of the run is admitted
    again with the host ``profile``, by default the one measured here.

    Raises ``BadInput`` if the file is no trace.
    """
    return _page(Page, *_native.report(os.fspath(trace), profile))


def why(trace: StrPath) -> tuple[list[Answer], Answer]:
    """Judges a trace file: returns a record with the causes for each late job, and the verdict."""
    late, end = _native.why_late(os.fspath(trace))
    return [_answer(one) for one in late], _answer(end)


def verify(
    contract: StrPath | None = None,
    *,
    text: str | None = None,
    profile: StrPath | None = None,
    length: Time = "60s",
    only_programs: bool = False,
    trace: StrPath | None = None,
    broker: StrPath = BROKER,
    program: StrPath = "punctual",
) -> Answer:
    """Runs everything in a contract on this host, and says for each promise whether it was kept.

    It runs for ``length``, or until all programs have ended if nothing else runs, and other Python
    threads go on meanwhile. ``only_programs`` runs the commands of the contract alone. What these
    print is not shown. ``answer.promises`` has a row for each promise, whose ``verdict`` is
    ``"kept"``, ``"broken"`` or ``"not judgeable"``, with ``why``, ``evidence`` and ``causes``;
    ``answer.broken`` says whether one was broken, or the contract refused, and ``answer.kept`` whether
    all were judged and kept, and no program failed. ``trace`` names a new file for the events of the
    run, which ``report`` and ``why`` read.

    It takes the ``program`` punctual, by path or from PATH, because this package does not observe the
    kernel, and its privileges: CAP_BPF, CAP_PERFMON and those of ``start``.

    Raises ``BadInput`` for a contract that is not valid or a trace that exists, and ``CannotHere`` if
    this host cannot do it. An exception, such as KeyboardInterrupt, ends the run first.
    """
    if (contract is None) == (text is None):
        raise BadInput("give a contract as a file or as a text")
    options = ["--for", _time(length), "--broker", os.fspath(broker), "--json"]
    options += ["--host-profile", os.fspath(profile)] if profile is not None else []
    options += ["--trace", os.fspath(trace)] if trace is not None else []
    options += ["--only-programs"] if only_programs else []
    with tempfile.TemporaryDirectory(prefix="punctual-") as folder:
        file = os.path.join(folder, "text") if contract is None else os.fspath(contract)
        if text is not None:
            with open(file, "x", encoding="utf-8") as to:
                to.write(text)
        with open(os.path.join(folder, "stderr"), "x+", errors="replace") as said:
            code, answer = _verdicts([program, "verify", *options, "--", file], said)
            said.seek(0)
            why = said.read().rpartition("punctual: ")[2].strip()
    if code in (0, 1, 4) and answer:
        return _answer(answer)
    raise (BadInput if code == 2 else CannotHere)(why or f"{program} ended with {code}")


def _verdicts(command: Sequence[StrPath], said: IO[str]) -> tuple[int, str]:
    try:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
        )
    except OSError as why:
        raise CannotHere(f"{os.fspath(command[0])} cannot be run: {why.strerror}") from why
    try:
        answer, _ = running.communicate()
        return running.returncode, answer
    except BaseException:
        # It ends its programs, too.
        running.terminate()
        running.communicate()
        raise


def doctor(interface: str | None = None) -> Answer:
    """Tries out which promises this host can keep, which takes a second or two."""
    return _answer(_native.diagnose(interface))


class Program:
    """A program that runs under a reservation. It is killed with this process."""

    def __init__(self, native: _native.Program) -> None:
        self._native = native

    @property
    def pid(self) -> int:
        """The id of the program's first process."""
        return self._native.pid

    def send_signal(self, signal: int) -> None:
        """Sends a signal to the program's first process; ``ProcessLookupError`` if it has ended."""
        self._native.send_signal(int(signal))

    def terminate(self) -> None:
        """Asks the program to end (SIGTERM)."""
        self.send_signal(_signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> Answer:
        """Waits for the end and returns the account; ``answer.exit_code`` is the program's own.

        Raises ``TimeoutError`` if the program still runs after ``timeout`` seconds.
        """
        _code, account = self._native.wait(timeout)
        return _answer(account)

    def __await__(self):
        """Waits for the end without keeping the event loop from its other work."""
        return asyncio.to_thread(self.wait).__await__()


def start(
    command: Sequence[StrPath],
    budget: Time,
    period: Time,
    *,
    hard: bool | None = None,
    backend: Literal["server", "timetable", "kernel"] | None = None,
    cpu: int | None = None,
    cwd: StrPath | None = None,
    env: Mapping[str, str] | None = None,
    broker: StrPath | None = BROKER,
    adapt: str | None = None,
) -> Program:
    """Starts a program that has ``budget`` of processor time in every ``period``.

    It holds for all threads and processes of the program, from its first instruction on. By default
    it is soft, and a server runs the program whenever it wakes; ``hard`` holds it down to its budget.
    ``adapt`` is a range such as ``"1ms..4ms"`` within which the budget follows what the program uses.
    ``env`` is added to this process's environment. Without privilege the ``broker`` is asked.

    Raises ``Refused``, with what would be admitted, ``CannotHere``, or ``BadInput``.
    """
    words = [os.fspath(word) for word in command]
    environment = list((env or {}).items())
    native = _native.Program(
        words, _reservation(budget, period), hard, backend, cpu, cwd, environment, broker, adapt
    )
    return Program(native)


def run(command: Sequence[StrPath], budget: Time, period: Time, **options: Any) -> Answer:
    """Starts a program like ``start``, waits for its end and returns its account.

    An exception, such as KeyboardInterrupt, ends the program first.
    """
    program = start(command, budget, period, **options)
    try:
        return program.wait()
    except BaseException:
        try:
            program.terminate()
            program.wait()
        except ProcessLookupError:
            pass
        raise


class Reserved:
    """The reservation of the thread that made it. Other threads must not use it."""

    def __init__(self, native: _native.Reserved) -> None:
        self._native = native

    @property
    def backend(self) -> str:
        """Who holds it: ``"kernel"`` or ``"timetable"``."""
        return self._native.because[0]

    @property
    def because(self) -> str:
        """The reason for that choice."""
        return self._native.because[1]

    @property
    def used_ns(self) -> int:
        """The processor time that the thread used since this period began."""
        return self._native.used_ns

    @property
    def left_ns(self) -> int:
        """The rest of this period's budget."""
        return self._native.left_ns

    def wait_for_next_period(self) -> int:
        """Sleeps until the next period and returns its beginning, as time.monotonic_ns() has it."""
        return self._native.wait_for_next_period()

    def change(self, budget: Time, period: Time) -> None:
        """Changes the budget and the period; ``Refused`` leaves them as they are."""
        self._native.change(_reservation(budget, period))


@contextmanager
def reserve(
    budget: Time, period: Time, *, hard: bool = True, exact: bool = False
) -> Iterator[Reserved]:
    """Reserves ``budget`` in every ``period`` for the calling thread, for the time of a ``with``.

    The kernel holds a hard one, to within a scheduler tick or two; ``exact`` holds it to its budget
    by a timetable.
    """
    native = _native.Reserved(_reservation(budget, period), hard, exact)
    try:
        yield Reserved(native)
    finally:
        native.end()


class Constraint:
    """A time constraint of the thread that made it. Other threads must not use it."""

    estimate_ns: int
    """The promised processor time."""
    deadline_ns: int
    """The instant by which it is promised, as time.monotonic_ns() has it."""
    used_ns: int | None
    """The processor time that the thread used; ``None`` until the end of the ``with``."""
    in_time: bool | None
    """Whether it ended at or before its deadline; ``None`` until the end of the ``with``."""

    def __init__(self, native: _native.Constraint) -> None:
        self.estimate_ns, self.deadline_ns = native.terms
        self.used_ns = self.in_time = None


@contextmanager
def constraint(
    estimate: Time, relative_deadline: Time, *, start_ns: int | None = None
) -> Iterator[Constraint]:
    """Promises the calling thread ``estimate`` of processor time, once, within a ``with``.

    The time is between ``start_ns``, an instant of time.monotonic_ns() (default and earliest: now),
    and ``relative_deadline`` after it. It is time that no reservation has; a reservation of the same
    thread must end after it. The thread stays on one CPU meanwhile. Leaving the ``with`` early
    gives the rest back. An estimate that was too small is no error: ``in_time`` says whether the
    work was done by the deadline all the same.

    Raises ``Refused`` before the work begins, with the largest estimate that would fit and the
    earliest absolute deadline; ``CannotHere`` where no timetable can be followed, or ``BadInput``.

    >>> with constraint("2ms", "10ms") as promised:                          # doctest: +SKIP
    ...     work()
    >>> promised.in_time, promised.used_ns                                   # doctest: +SKIP
    (True, 1403125)
    """
    native = _native.Constraint(start_ns, _time(estimate), _time(relative_deadline))
    promised = Constraint(native)
    try:
        yield promised
    finally:
        promised.used_ns, promised.in_time = native.end()


class Received(NamedTuple):
    """What ``Channel.receive_into`` says of a message."""

    bytes: int
    """Its length."""
    number: int
    """Its number, counted from the channel's first message without gaps."""
    arrived_ns: int
    """Its arrival at this host, as time.monotonic_ns() has it."""


class Channel:
    """A channel, closed at the end of a ``with``. Any thread may use it; calls wait for each other.

    Waits release Python's lock, end with KeyboardInterrupt, and raise ``TimeoutError`` after
    ``timeout`` seconds (``None``: never). If the broker is gone they raise ``CannotHere``.
    """

    def __init__(self, native: _native.Channel) -> None:
        self._native = native

    @property
    def grant(self) -> int:
        """The number of the grant, as ``punctual status`` shows it."""
        return self._native.grant

    @property
    def delay_bound_ns(self) -> int | None:
        """The promised bound on the delay of a message; ``None`` for best effort."""
        return self._native.delay_bound_ns

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends a copy of a contiguous buffer, such as bytes or an array; waits for room."""
        self._native.send(memoryview(message).cast("B"), timeout)

    def drain(self, timeout: float | None = None) -> None:
        """Waits until all messages that were sent have left."""
        self._native.drain(timeout)

    def receive(self, timeout: float | None = None) -> bytes:
        """Waits for the next message and returns it."""
        return bytes(self._native.receive(timeout, None)[0])

    def receive_into(self, buffer: Any, timeout: float | None = None) -> Received:
        """Waits for the next message and copies it to the front of a writable contiguous buffer.

        A message that is too long for it raises ``BadInput``, and stays the next one.
        """
        into = memoryview(buffer).cast("B")
        if into.readonly:
            raise BadInput("the buffer is read-only")
        message, number, arrived = self._native.receive(timeout, len(into))
        into[: len(message)] = bytes(message)
        return Received(len(message), number, arrived)

    def fileno(self) -> int:
        """The descriptor to poll for reading, after ``before_poll`` said that one may sleep.

        Readable means that the broker woke this end, for a message or for room, not that there is
        one. ``close`` closes it: take it out of an event loop before. ``BadInput`` if it is closed.
        """
        return self._native.fileno()

    def before_poll(self) -> bool:
        """Announces that this end is going to sleep, and returns whether it may.

        ``False`` means that there is a message, or room, already. Without this call the broker
        does not wake the descriptor. A call that sends or receives takes the announcement back.
        Raises ``CannotHere`` if the broker is gone and no message is left.
        """
        return self._native.before_poll()

    def after_poll(self) -> None:
        """Takes back what ``before_poll`` announced and makes the descriptor unreadable again.

        Call it first whenever the descriptor was readable, then send or receive with a ``timeout``
        of 0 until ``TimeoutError``.
        """
        self._native.after_poll()

    def close(self) -> None:
        """Gives the channel back; messages that have not left are lost (``drain`` waits for them)."""
        self._native.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def channel(
    name: str,
    address: str,
    *,
    spacing: Time,
    max_message: int,
    min_message: int = 1,
    burst: int = 1,
    delay_bound: Time | None = None,
    direction: Literal["send", "receive"] = "send",
    framing: Literal["datagram", "fragments"] = "datagram",
    too_early: Literal["wait", "lose"] = "wait",
    number: int = 0,
    slots: int | None = None,
    broker: StrPath = BROKER,
) -> Channel:
    """Opens a channel through the broker to an address, or from one.

    In any time T it carries at most ``burst`` + T / ``spacing`` messages of ``min_message`` to
    ``max_message`` bytes. ``delay_bound`` is promised from the arrival of a message, as the contract
    counts it, to the end of its transmission; ``None`` is best effort. What comes beyond the burst
    waits or is lost, as ``too_early`` says. ``number`` is the channel's in fragments' headers.

    Raises ``Refused``, with a counter-offer, ``BadInput``, or ``CannotHere`` if no broker answers.

    >>> with channel("sensor", "192.0.2.7:4000", spacing="10ms", max_message=1200,
    ...              delay_bound="5ms") as out:                              # doctest: +SKIP
    ...     out.send(b"sample")
    """
    bound = None if delay_bound is None else _time(delay_bound)
    return Channel(
        _native.Channel(
            name, address, _time(spacing), max_message, min_message, burst, bound, direction,
            framing, too_early, number, slots, broker,
        )
    )
