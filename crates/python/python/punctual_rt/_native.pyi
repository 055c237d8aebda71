from os import PathLike

StrPath = str | PathLike[str]

class BadInput(ValueError):
    """The contract, the trace or an argument is wrong. The text says where."""

class CannotHere(OSError):
    """This host cannot do it. The text says what to do about it."""

class Program:
    def __init__(
        self,
        words: list[str],
        reservation: str,
        hard: bool | None,
        backend: str | None,
        cpu: int | None,
        directory: StrPath | None,
        environment: list[tuple[str, str]],
        broker: StrPath | None,
    ) -> None: ...
    @property
    def pid(self) -> int: ...
    def send_signal(self, signal: int) -> None: ...
    def wait(self, seconds: float | None) -> tuple[int, str]: ...

class Reserved:
    def __init__(self, reservation: str, hard: bool, exact: bool) -> None: ...
    def end(self) -> None: ...
    @property
    def because(self) -> tuple[str, str]: ...
    def wait_for_next_period(self) -> int: ...
    @property
    def used_ns(self) -> int: ...
    @property
    def left_ns(self) -> int: ...
    def change(self, reservation: str) -> None: ...

class Channel:
    def __init__(
        self,
        name: str,
        address: str,
        spacing: str,
        max_message: int,
        min_message: int,
        burst: int,
        delay_bound: str | None,
        direction: str,
        framing: str,
        too_early: str,
        number: int,
        slots: int | None,
        broker: StrPath,
    ) -> None: ...
    @property
    def grant(self) -> int: ...
    @property
    def delay_bound_ns(self) -> int | None: ...
    def send(self, message: memoryview, seconds: float | None) -> None: ...
    def drain(self, seconds: float | None) -> None: ...
    def receive(self, seconds: float | None, most: int | None) -> tuple[bytes, int, int]: ...
    def close(self) -> None: ...

def admit(path: StrPath | None, text: str | None, profile: StrPath | None, explain: bool) -> str: ...
def simulate(
    path: StrPath | None,
    text: str | None,
    profile: StrPath | None,
    length: str | None,
    seed: int | None,
    arrivals: str | None,
) -> str: ...
def why_late(trace: StrPath) -> tuple[list[str], str]: ...
def diagnose(interface: str | None) -> str: ...
