"""Programs and threads under reservations on this host. No test asserts a duration."""

import asyncio
import os
import pickle
import shutil
import signal
import sys
import threading
import time

import punctual_rt
import pytest
from test_answers import MIXER, ROOT


def live(call, *arguments, **options):
    """Calls, and skips where this host cannot."""
    try:
        return call(*arguments, **options)
    except punctual_rt.CannotHere as why:
        pytest.skip(f"ignored: {why}")


def in_a_thread(body):
    """Calls `body` in a thread of its own: the main thread of a test stays as it is."""
    failed = []

    def guarded():
        try:
            live(body)
        except BaseException as why:  # noqa: BLE001 - raised again in the test's thread
            failed.append(why)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def test_a_program_runs_to_its_end_and_is_accounted_for(tmp_path):
    script = "echo $WORD > out; exit 7"
    account = live(
        punctual_rt.run, ["sh", "-c", script], "2ms", "20ms", cwd=tmp_path, env={"WORD": "held"}
    )
    assert account.exit_code == 7 and account.exec_time_ns > 0
    assert (tmp_path / "out").read_text() == "held\n"


def test_a_refusal_is_raised_with_what_would_be_admitted():
    with pytest.raises(punctual_rt.Refused, match="would be admitted") as raised:
        live(punctual_rt.start, ["true"], "19.9ms", "20ms", broker=None)
    refused = raised.value
    assert refused.test and refused.resource
    offer = next(offer for offer in refused.counter_offers if offer.axis == "budget")
    assert offer["from"] == 19_900_000 > offer.to > 0
    assert (offer.kind, offer.unit) == ("reservation", "ns")
    again = pickle.loads(pickle.dumps(refused))
    assert (str(again), again.counter_offers) == (str(refused), refused.counter_offers)


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ([], {}, "no program"),
        (["/nowhere"], {}, "/nowhere"),
        (["true"], {"backend": "magic"}, "server"),
        (["true"], {"adapt": "4ms..1ms"}, "not a range"),
        (["true"], {"adapt": "3ms..4ms"}, "<= its budget <="),
        (["true"], {"cwd": "/nowhere"}, "/nowhere"),
    ],
)
def test_a_bad_command_says_what(command, options, words):
    with pytest.raises(punctual_rt.BadInput, match=words):
        live(punctual_rt.start, command, "2ms", "20ms", **options)
    with pytest.raises(punctual_rt.BadInput):
        punctual_rt.start(["true"], "2ms", "1ms")


def test_a_program_can_be_waited_for_and_ended():
    program = live(punctual_rt.start, ["sleep", "600"], "2ms", "20ms")
    assert os.path.exists(f"/proc/{program.pid}")
    with pytest.raises(TimeoutError):
        program.wait(0.05)
    program.terminate()
    account = program.wait()
    assert account.signal == signal.SIGTERM
    assert program.wait() == account
    with pytest.raises(ProcessLookupError):
        program.terminate()


def test_an_event_loop_goes_on_meanwhile():
    async def main():
        program = live(punctual_rt.start, ["sleep", "0.3"], "2ms", "20ms")
        turns = 0

        async def turn():
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        turning = asyncio.create_task(turn())
        account = await program
        turning.cancel()
        return account.exit_code, turns

    code, turns = asyncio.run(main())
    assert code == 0 and turns > 0


def test_an_interrupt_ends_the_program():
    # A shell may have started this with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            live(punctual_rt.run, ["sleep", "600"], "2ms", "20ms")
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def test_a_thread_reserves_for_itself():
    def body():
        with punctual_rt.reserve("2ms", "50ms") as reserved:
            first = reserved.wait_for_next_period()
            assert first <= time.monotonic_ns()
            until = time.thread_time_ns() + 200_000
            while time.thread_time_ns() < until:
                pass
            assert reserved.used_ns > 0 and reserved.left_ns < 2_000_000
            assert reserved.wait_for_next_period() - first >= 50_000_000
            assert reserved.backend in ("kernel", "timetable") and reserved.because
        with pytest.raises(punctual_rt.BadInput, match="has ended"):
            _ = reserved.used_ns

    in_a_thread(body)


def test_a_time_constraint_is_kept_or_refused_beforehand():
    def body():
        before = time.monotonic_ns()
        with punctual_rt.constraint("1ms", "5s") as promised:
            assert promised.used_ns is None and promised.in_time is None
            until = time.thread_time_ns() + 200_000
            while time.thread_time_ns() < until:
                pass
        assert promised.estimate_ns == 1_000_000
        assert promised.deadline_ns >= before + 5_000_000_000
        assert promised.used_ns >= 200_000 and promised.in_time
        with punctual_rt.constraint("1ms", "1s", start_ns=before + 60 * 10**9) as promised:
            assert promised.deadline_ns == before + 61 * 10**9
        with pytest.raises(punctual_rt.Refused) as raised:
            with punctual_rt.constraint("30ms", "20ms"):
                pytest.fail("more work than time")
        fits = {offer.axis: offer.to for offer in raised.value.counter_offers}
        assert 0 < fits["estimate"] < 20_000_000 and raised.value.test == "time-constraint"
        # Half of what is offered fits: later requests start later.
        with punctual_rt.constraint(fits["estimate"] // 2, "20ms"):
            pass
        with pytest.raises(punctual_rt.BadInput, match="positive"):
            with punctual_rt.constraint("1ms", 0):
                pass
        with pytest.raises(ZeroDivisionError):
            with punctual_rt.constraint("1ms", "1s") as promised:
                1 / 0
        assert promised.in_time is not None

    in_a_thread(body)


def verified(text, **options):
    program = shutil.which("punctual", path=str(ROOT / "target" / "debug"))
    if program is None:
        pytest.skip("ignored: the program is not built")
    options = {"profile": "ideal", "length": "500ms", "program": program, **options}
    return live(punctual_rt.verify, text=text, **options)


def test_the_promises_of_a_contract_are_judged(tmp_path):
    trace = tmp_path / "run.ptrace"
    answer = verified(MIXER.replace("mixer", "<mixer>"), trace=trace)
    rows = {(row.kind, row.name): row for row in answer.promises}
    assert rows["contract", "admission"].verdict == "kept"
    mixer = rows["task", "<mixer>"]
    assert mixer.jobs > 0 and mixer.evidence == ["synthetic work"]
    assert answer.broken == any(row.verdict == "broken" for row in answer.promises)
    assert answer.ran_ns >= 500_000_000
    page = answer._repr_html_()
    assert "<caption>promises</caption>" in page and "&lt;mixer&gt;" in page
    assert punctual_rt.report(trace, profile="ideal").jobs > 0
    refused = verified(MIXER.replace("2ms", "11ms").replace("10ms", "11ms") + MIXER.replace("mixer", "b"))
    assert refused.broken and [row.verdict for row in refused.promises] == ["broken"]


@pytest.mark.parametrize(
    ("text", "options", "kind", "words"),
    [
        ("[[task]]\nname = 3\n", {}, punctual_rt.BadInput, "text:2:8"),
        (MIXER, {"contract": "/nowhere"}, punctual_rt.BadInput, "a file or as a text"),
        (MIXER, {"profile": "/nowhere.toml"}, punctual_rt.BadInput, "/nowhere.toml"),
        (MIXER, {"length": "1parsec"}, punctual_rt.BadInput, "1parsec"),
        (MIXER, {"program": "/nowhere/punctual"}, punctual_rt.CannotHere, "/nowhere/punctual"),
    ],
)
def test_a_run_that_cannot_be_verified_says_why(text, options, kind, words):
    program = shutil.which("punctual", path=str(ROOT / "target" / "debug"))
    if program is None:
        pytest.skip("ignored: the program is not built")
    with pytest.raises(kind, match=words):
        punctual_rt.verify(text=text, **{"program": program, **options})


def test_an_interrupt_ends_the_run_of_a_contract():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            verified(MIXER, length="600s")
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def test_the_host_is_looked_at():
    found = punctual_rt.doctor()
    assert {"able", "checks"} <= set(found)
    assert all(check.name for check in found.checks)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
