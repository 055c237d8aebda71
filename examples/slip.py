#!/usr/bin/env python3
"""IP over a serial line, in user space: SLIP (RFC 1055) on a tty, a TUN device on the other side.

    slip.py TTY DEVICE [--dial NUMBER | --answer]

Needs CAP_NET_ADMIN, and a kernel with TUN; none of SLIP or PPP. The device is there until the
program ends. Give it an address with `ip addr add 10.0.0.1 peer 10.0.0.2 dev DEVICE`, and bring it
up with `ip link set DEVICE mtu 296 up`: a longer packet takes seconds at 2400 bit/s.

The modem at TTY is told to dial or to answer, and packets pass from CONNECT on; with neither, at
once.
"""

import argparse
import fcntl
import os
import select
import struct
import sys
import termios
import time
import tty

END, ESC, ESC_END, ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000

# The longest packet that is passed on; the rest of a longer one is dropped with it.
MOST = 1500

# Packets that wait for a slow line: beyond these the network drops, as a router does.
QUEUE = 8


def open_tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR)
    request = struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(device, TUNSETIFF, request)
    return device


def open_tty(path):
    line = os.open(path, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(line, termios.TCSANOW)
    return line


def encode(packet):
    """END on both sides: noise before a packet ends as a packet of its own."""
    escaped = packet.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
    return b"\xc0" + escaped + b"\xc0"


class Decoder:
    """Bytes to packets. What is no SLIP is no packet."""

    def __init__(self):
        self.packet, self.escaped, self.bad = bytearray(), False, False

    def take(self, data):
        for byte in data:
            if byte == END:
                packet, good = bytes(self.packet), not self.bad and not self.escaped
                self.packet, self.escaped, self.bad = bytearray(), False, False
                if packet and good:
                    yield packet
            elif self.escaped:
                self.escaped = False
                self.bad |= byte not in (ESC_END, ESC_ESC)
                self.packet.append(END if byte == ESC_END else ESC)
            elif byte == ESC:
                self.escaped = True
            else:
                self.packet.append(byte)
            self.bad |= len(self.packet) > MOST


def converse(line, says, until, seconds):
    """Says something to the modem and waits for its answer."""
    os.write(line, says)
    heard, deadline = b"", time.monotonic() + seconds
    while until not in heard:
        if b"NO CARRIER" in heard or time.monotonic() > deadline:
            sys.exit(f"slip.py: the modem does not connect: {heard!r}")
        if select.select([line], [], [], 0.2)[0]:
            heard += os.read(line, 256)
    return heard


def pump(line, device):
    decoder, waiting, rest = Decoder(), [], b""
    os.set_blocking(line, False)
    while True:
        if not rest and waiting:
            rest = encode(waiting.pop(0))
        ready, writable, _ = select.select([line, device], [line] if rest else [], [])
        if line in ready:
            data = os.read(line, 4096)
            if not data:
                return
            for packet in decoder.take(data):
                try:
                    os.write(device, packet)
                except OSError:
                    pass  # No IP packet, or the device is down: as lost as any other.
        if device in ready:
            packet = os.read(device, MOST + 4)
            if len(waiting) < QUEUE:
                waiting.append(packet)
        if writable:
            rest = rest[os.write(line, rest[:64]) :]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("tty")
    arguments.add_argument("device")
    role = arguments.add_mutually_exclusive_group()
    role.add_argument("--dial", metavar="NUMBER")
    role.add_argument("--answer", action="store_true")
    options = arguments.parse_args()
    line, device = open_tty(options.tty), open_tun(options.device)
    print(f"{options.device} is there", flush=True)
    if options.dial:
        converse(line, b"ATE0\r", b"OK\r\n", 5)
        converse(line, b"ATDT" + options.dial.encode() + b"\r", b"CONNECT", 90)
    elif options.answer:
        converse(line, b"ATE0S0=1\r", b"OK\r\n", 5)
        converse(line, b"", b"CONNECT", 600)
    print("packets pass", flush=True)
    pump(line, device)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
