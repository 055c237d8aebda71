"""Channels through a broker of the test's own. No test asserts a duration."""

import array
import asyncio
import os
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import punctual_rt
import pytest
from test_answers import ROOT

CONFIG = """
[channels]
link = "1gbit/s"
interface = "lo"

[default]
share = "50%"
link = "50%"
queue_memory = "64MiB"
allow = ["channels"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    punctual = shutil.which("punctual", path=str(ROOT / "target" / "debug"))
    if punctual is None:
        pytest.skip("ignored: the program is not built")
    if os.geteuid() != 0:
        pytest.skip("ignored: a broker takes root")
    folder = tmp_path_factory.mktemp("broker")
    folder.chmod(0o755)
    config, path, log = folder / "broker.toml", folder / "socket", folder / "log"
    config.write_text(CONFIG)
    command = [punctual, "serve", "--config", config, "--socket", path, "--state", folder / "state"]
    with log.open("wb") as to:
        serving = subprocess.Popen(command, stdout=to, stderr=to)
    try:
        while not path.exists() and serving.poll() is None:
            time.sleep(0.05)
        if serving.returncode == 3:
            pytest.skip(f"ignored: {log.read_text()}")
        assert serving.returncode is None, log.read_text()
        yield path
    finally:
        serving.terminate()
        serving.wait()


def opened(broker, address, **options):
    terms = {"spacing": "10ms", "max_message": 1200, "burst": 4, "delay_bound": "20ms"}
    return punctual_rt.channel("test", address, **{**terms, **options}, broker=broker)


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_messages_of_any_buffer_leave(broker):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        far.settimeout(30)
        numbers = array.array("d", [1.5, 2.5])
        with opened(broker, f"127.0.0.1:{far.getsockname()[1]}") as out:
            assert out.grant > 0 and out.delay_bound_ns == 20_000_000
            out.send(b"bytes", timeout=30)
            out.send(numbers, timeout=30)
            out.drain(timeout=30)
            with pytest.raises(punctual_rt.BadInput, match="1200"):
                out.send(bytes(1201))
            with pytest.raises(punctual_rt.BadInput, match="receives nothing"):
                out.receive(timeout=0)
        assert far.recv(2000) == b"bytes"
        assert far.recv(2000) == numbers.tobytes()
        with pytest.raises(punctual_rt.BadInput, match="closed"):
            out.send(b"late")


def test_messages_arrive_in_a_buffer(broker):
    port = free_port()
    with opened(broker, f"127.0.0.1:{port}", direction="receive") as into:
        with pytest.raises(TimeoutError):
            into.receive(timeout=0.01)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
            far.sendto(b"one", ("127.0.0.1", port))
            far.sendto(b"three", ("127.0.0.1", port))
        assert into.receive(timeout=30) == b"one"
        with pytest.raises(punctual_rt.BadInput):
            into.receive_into(bytearray(2), timeout=30)
        room = bytearray(8)
        received = into.receive_into(room, timeout=30)
        assert room[: received.bytes] == b"three" and received.number == 1
        assert 0 < received.arrived_ns <= time.monotonic_ns()
        with pytest.raises(punctual_rt.BadInput, match="read-only"):
            into.receive_into(b"constant", timeout=0)


def test_an_event_loop_waits_for_messages(broker):
    port = free_port()

    async def main(into):
        loop, got = asyncio.get_running_loop(), []
        three = loop.create_future()

        def readable():
            into.after_poll()
            while True:
                try:
                    got.append(into.receive(timeout=0))
                except TimeoutError:
                    if into.before_poll():
                        break
            if len(got) == 3 and not three.done():
                three.set_result(None)

        loop.add_reader(into, readable)
        readable()
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
                for message in (b"one", b"two", b"three"):
                    far.sendto(message, ("127.0.0.1", port))
                    await asyncio.sleep(0.05)
            await asyncio.wait_for(three, 30)
        finally:
            loop.remove_reader(into)
        return got

    with opened(broker, f"127.0.0.1:{port}", direction="receive") as into:
        assert asyncio.run(main(into)) == [b"one", b"two", b"three"]
        assert into.before_poll()
    for closed in (into.fileno, into.before_poll, into.after_poll):
        with pytest.raises(punctual_rt.BadInput, match="closed"):
            closed()


def test_a_sender_learns_of_room_before_it_sleeps(broker):
    with opened(broker, "127.0.0.1:4000") as out:
        assert select.select([out], [], [], 0)[0] == []
        assert not out.before_poll()
        out.after_poll()


def test_an_interrupt_ends_a_wait(broker):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    try:
        with opened(broker, f"127.0.0.1:{free_port()}", direction="receive") as into:
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                into.receive()
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def test_a_refusal_has_an_offer(broker):
    with pytest.raises(punctual_rt.Refused) as raised:
        opened(broker, "127.0.0.1:4000", spacing="15us")
    refused = raised.value
    assert refused.test and refused.test in str(refused)
    spacing = next(offer for offer in refused.counter_offers if offer.axis == "period")
    assert (spacing.kind, spacing.unit, spacing["from"]) == ("channel", "ns", 15_000)
    # What is offered is admitted.
    with opened(broker, "127.0.0.1:4000", spacing=spacing.to) as out:
        assert out.grant > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [({"spacing": "10"}, "10"), ({"direction": "up"}, "direction"), ({"burst": 0}, "cannot be")],
)
def test_a_request_that_cannot_be_says_why(options, words):
    with pytest.raises(punctual_rt.BadInput, match=words):
        opened("/nowhere", "127.0.0.1:4000", **options)
    with pytest.raises(punctual_rt.BadInput, match="address"):
        opened("/nowhere", "here")
    with pytest.raises(punctual_rt.CannotHere, match="/nowhere"):
        opened("/nowhere", "127.0.0.1:4000")
