//! These tests compare the compiled program with a direct evaluation of the rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;

/// A datagram as the kernel shows it, with its headers apart.
struct Packet {
    address: IpAddr,
    port: u16,
    payload: Vec<u8>,
    random: u32,
}

impl Packet {
    /// Returns the result of a load of `size` bytes at `k`, by filter.rst.
    fn load(&self, k: u32, size: usize) -> Option<u32> {
        if k == (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM).cast_unsigned() {
            return Some(self.random);
        }
        let network = k.wrapping_sub(libc::SKF_NET_OFF.cast_unsigned());
        let (bytes, at) = if network < 64 {
            let mut header = vec![0; 40];
            match self.address {
                IpAddr::V4(v4) => header[12..16].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => header[8..24].copy_from_slice(&v6.octets()),
            }
            (header, network as usize)
        } else {
            let mut udp = vec![0; 8];
            udp[..2].copy_from_slice(&self.port.to_be_bytes());
            udp.extend(&self.payload);
            (udp, k as usize)
        };
        let word = bytes.get(at..at + size)?;
        Some(word.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))
    }

    /// Returns true if the program keeps it.
    fn kept_by(&self, program: &Program) -> bool {
        let (mut a, mut pc) = (0_u32, 0);
        loop {
            let i = program.instructions()[pc];
            pc += 1;
            let code = u32::from(i.code);
            match code & 7 {
                libc::BPF_LD if code & 0xe0 == libc::BPF_LEN => a = 8 + self.payload.len() as u32,
                libc::BPF_LD => {
                    let size = match code & 0x18 {
                        libc::BPF_W => 4,
                        libc::BPF_H => 2,
                        _ => 1,
                    };
                    match self.load(i.k, size) {
                        Some(word) => a = word,
                        None => return false,
                    }
                }
                libc::BPF_ALU => a &= i.k,
                libc::BPF_JMP => {
                    let holds = match code & 0xf0 {
                        libc::BPF_JEQ => a == i.k,
                        libc::BPF_JGE => a >= i.k,
                        _ => a > i.k,
                    };
                    pc += usize::from(if holds { i.jt } else { i.jf });
                }
                _ => return i.k != 0,
            }
        }
    }

    fn matches(&self, flow: &Flow) -> bool {
        flow.address.is_none_or(|address| address == self.address)
            && flow.port.is_none_or(|port| port == self.port)
            && flow.byte.is_none_or(|byte| {
                self.payload.get(usize::from(byte.at)).is_some_and(|b| b & byte.mask == byte.value)
            })
    }

    fn kept_by_rules(&self, filter: &Filter) -> bool {
        let first = filter.rules.iter().find(|(flow, _)| self.matches(flow));
        match first.map_or(filter.otherwise, |(_, verdict)| *verdict) {
            Verdict::Keep => true,
            Verdict::Drop => false,
            Verdict::KeepPart(part) => self.random < part,
        }
    }
}

/// xorshift64*: enough to draw a few small numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn address(&mut self, v6: bool) -> IpAddr {
        let last = self.below(3) as u8;
        if v6 {
            // The addresses differ in only one of the four words.
            let mut octets = [0x20; 16];
            octets[self.below(4) as usize * 4] = last;
            Ipv6Addr::from(octets).into()
        } else {
            Ipv4Addr::new(10, 0, 0, last).into()
        }
    }

    fn verdict(&mut self) -> Verdict {
        match self.below(3) {
            0 => Verdict::Keep,
            1 => Verdict::Drop,
            _ => Verdict::KeepPart(self.below(101) as u32),
        }
    }

    fn flow(&mut self, v6: bool) -> Flow {
        let mut flow = Flow::default();
        if self.below(2) == 0 {
            flow.address = Some(self.address(v6));
        }
        if self.below(2) == 0 {
            flow.port = Some(self.below(3) as u16);
        }
        if self.below(2) == 0 {
            let mask = [0xff, 0x03, 0x00][self.below(3) as usize];
            let value = self.below(4) as u8 & mask;
            flow.byte = Some(PayloadByte { at: self.below(5) as u16, mask, value });
        }
        flow
    }
}

#[test]
fn programs_decide_as_the_rules_say() {
    let mut draw = Draw(0x5eed_0001);
    let mut decided = [0; 2];
    for _ in 0..500 {
        let v6 = draw.below(2) == 0;
        let mut filter = Filter::new(draw.verdict());
        for _ in 0..draw.below(6) {
            filter = filter.rule(draw.flow(v6), draw.verdict());
        }
        let program = filter.compile(v6).expect("rules that can match");
        for _ in 0..100 {
            let packet = Packet {
                address: draw.address(v6),
                port: draw.below(3) as u16,
                payload: (0..draw.below(6)).map(|_| draw.below(5) as u8).collect(),
                random: draw.below(100) as u32,
            };
            let kept = packet.kept_by(&program);
            assert_eq!(kept, packet.kept_by_rules(&filter), "{filter:?}");
            decided[usize::from(kept)] += 1;
        }
    }
    assert!(decided.iter().all(|&times| times > 10_000), "{decided:?}");
}

#[test]
fn rules_that_can_never_match_are_refused() {
    let flow = Flow { address: Some(Ipv4Addr::LOCALHOST.into()), ..Flow::default() };
    let filter = Filter::new(Verdict::Keep).rule(flow, Verdict::Drop);
    assert!(filter.compile(false).is_ok());
    assert!(matches!(filter.compile(true), Err(FilterError::OtherFamily { rule: 0, .. })));

    let byte = Some(PayloadByte { at: 0, mask: 1, value: 2 });
    let filter = Filter::new(Verdict::Keep).rule(Flow { byte, ..Flow::default() }, Verdict::Drop);
    assert_eq!(filter.compile(true).err(), Some(FilterError::OutsideMask { rule: 0 }));
}

#[test]
fn as_many_rules_as_a_program_holds_and_no_more() {
    let rules = |many: usize| {
        (0..many).fold(Filter::new(Verdict::Drop), |filter, port| {
            let port = Some(u16::try_from(port).expect("few"));
            filter.rule(Flow { port, ..Flow::default() }, Verdict::Keep)
        })
    };
    assert_eq!(rules(1365).compile(false).expect("fits").len(), 4096);
    let refused = rules(1366).compile(false).err();
    assert_eq!(refused, Some(FilterError::TooLong { instructions: 4099 }));
}
