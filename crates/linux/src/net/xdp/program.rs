//! The program: whose packet it is, and whether it comes too early.
//!
//! Ethernet without tags, IPv4 with options or IPv6 without extension headers, UDP, not fragmented:
//! all else passes, for it is none of the flows. The generic cell rate algorithm in its form of virtual
//! scheduling (ITU-T I.371, annex A). Two processors may police one flow at the same instant: then one
//! packet more may pass; counts are atomic.

use super::assembler::{Assembler, Helper, If, Reg, Width};
use super::{RATE, STATE};
use crate::net::bpf::{Action, Instruction};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    V4,
    V6,
    Udp,
    AnyAddress,
    Found,
    OnTime,
    Pass,
    Drop,
}

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
const R5: Reg = Reg(5);
const RATE_OF: Reg = Reg(7);
const STATE_OF: Reg = Reg(8);
const IS_V4: Reg = Reg(9);
const FRAME: Reg = Reg(10);

/// Where the key lies in the frame: an address of 16 bytes, a port, and six of nothing.
const KEY: i16 = -24;
const PORT: i16 = KEY + 16;

/// An Ethernet header, and the shortest of IP.
const ETHERNET: i32 = 14;
const V4: i32 = 20;
const V6: i32 = 40;
const UDP: i32 = 8;

/// In the order of the network, as a load gives it.
fn half(value: u16) -> i32 {
    value.to_be().into()
}

/// With the tables of these descriptors.
pub(super) fn write(rates: u32, states: u32) -> Vec<Instruction> {
    let mut to = Assembler::new();
    // r2 = begin, r3 = end (`xdp_md`); every read is checked against the end before.
    to.load(Width::Word, R2, R1, 0).load(Width::Word, R3, R1, 4);
    within(&mut to, ETHERNET);
    for at in [KEY, KEY + 8, KEY + 16] {
        to.store_value(Width::Double, FRAME, at, 0);
    }
    to.set(IS_V4, 0);
    to.load(Width::Half, R5, R2, 12)
        .jump_if(R5, If::Equal, half(0x0800), To::V4)
        .jump_if(R5, If::Equal, half(0x86dd), To::V6)
        .jump(To::Pass);
    ipv4(&mut to);
    ipv6(&mut to);
    to.place(To::Udp);
    within(&mut to, UDP);
    to.load(Width::Half, R0, R2, 2).store(Width::Half, FRAME, PORT, R0);
    find(&mut to, rates);
    to.jump_if(R0, If::NotEqual, 0, To::Found);
    // Who listens at any address of the family.
    to.store_value(Width::Word, FRAME, KEY + 12, 0).jump_if(IS_V4, If::Equal, 1, To::AnyAddress);
    to.store_value(Width::Double, FRAME, KEY, 0).store_value(Width::Word, FRAME, KEY + 8, 0);
    to.place(To::AnyAddress);
    find(&mut to, rates);
    to.jump_if(R0, If::Equal, 0, To::Pass);
    to.place(To::Found).copy(RATE_OF, R0);
    find(&mut to, states);
    to.jump_if(R0, If::Equal, 0, To::Pass).copy(STATE_OF, R0);
    police(&mut to);
    to.finish()
}

/// Passes what has fewer than so many bytes from r2 on.
fn within(to: &mut Assembler<To>, bytes: i32) {
    to.copy(R4, R2).add(R4, bytes).jump_if_reg(R4, If::Greater, R3, To::Pass);
}

/// r2 = the UDP header; the key has the destination, as an address of IPv6 that maps it (RFC 4291,
/// section 2.5.5.2).
fn ipv4(to: &mut Assembler<To>) {
    to.place(To::V4);
    within(to, ETHERNET + V4);
    to.load(Width::Byte, R0, R2, 23).jump_if(R0, If::NotEqual, 17, To::Pass);
    // More fragments, or an offset.
    to.load(Width::Half, R0, R2, 20).and(R0, half(0x3fff)).jump_if(R0, If::NotEqual, 0, To::Pass);
    to.store_value(Width::Half, FRAME, KEY + 10, -1)
        .load(Width::Word, R0, R2, 30)
        .store(Width::Word, FRAME, KEY + 12, R0)
        .set(IS_V4, 1);
    // The length of the header, in words.
    to.load(Width::Byte, R5, R2, 14)
        .and(R5, 15)
        .jump_if(R5, If::Less, 5, To::Pass)
        .shift_left(R5, 2)
        .add(R2, ETHERNET)
        .add_reg(R2, R5)
        .jump(To::Udp);
}

fn ipv6(to: &mut Assembler<To>) {
    to.place(To::V6);
    within(to, ETHERNET + V6);
    to.load(Width::Byte, R0, R2, 20).jump_if(R0, If::NotEqual, 17, To::Pass);
    for at in [0, 4, 8, 12] {
        to.load(Width::Word, R0, R2, 38 + at).store(Width::Word, FRAME, KEY + at, R0);
    }
    to.add(R2, ETHERNET + V6);
}

/// r0 = the key's value in the table, or 0.
fn find(to: &mut Assembler<To>, table: u32) {
    to.table(R1, table).copy(R2, FRAME).add(R2, KEY.into()).call(Helper::Lookup);
}

fn police(to: &mut Assembler<To>) {
    to.call(Helper::Now);
    to.load(Width::Double, R1, STATE_OF, STATE.due)
        .load(Width::Double, R2, RATE_OF, RATE.tolerance)
        .add_reg(R2, R0)
        .jump_if_reg(R1, If::Greater, R2, To::Drop)
        .jump_if_reg(R1, If::NotLess, R0, To::OnTime)
        .copy(R1, R0);
    to.place(To::OnTime)
        .load(Width::Double, R3, RATE_OF, RATE.spacing)
        .add_reg(R1, R3)
        .store(Width::Double, STATE_OF, STATE.due, R1)
        .set(R2, 1)
        .count(STATE_OF, STATE.passed, R2);
    to.place(To::Pass).set(R0, Action::Pass as i32).exit();
    to.place(To::Drop)
        .set(R2, 1)
        .count(STATE_OF, STATE.discarded, R2)
        .set(R0, Action::Drop as i32)
        .exit();
}
