//! `[channels]`: the link that channels share, and the costs of sending.

use punctual_analysis::Carrier;
use punctual_analysis::channel::egress::Egress;
use punctual_model::channel::{BitRate, Link, Packetisation, SenderSpec};
use punctual_model::text_file::{Checked, choice};
use punctual_model::units::Part;
use punctual_model::{Duration, Reservation, Service};
use toml::Spanned;

use super::raw::{RawChannels, number, problem, within};

/// The transport of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireKind {
    /// UDP datagrams.
    Udp,
    /// An emulated link without any transport, for tests and experiments.
    Null,
}

impl WireKind {
    /// Both with the names they have in the configuration.
    pub const NAMES: [(&'static str, Self); 2] = [("udp", Self::Udp), ("null", Self::Null)];
}

/// The mechanism that discards excessive best-effort packets before they cost processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyDiscard {
    /// An XDP program in the interface's driver, before the kernel's network stack: it takes root,
    /// or CAP_BPF and CAP_NET_ADMIN.
    Xdp,
    /// A filter at each socket, which needs no privilege.
    Filter,
}

impl EarlyDiscard {
    /// Both with the names they have in the configuration.
    pub const NAMES: [(&'static str, Self); 2] = [("xdp", Self::Xdp), ("filter", Self::Filter)];
}

/// The configuration that the channels of a host share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelsConfig {
    /// The rate of the link, everything on the wire counted.
    pub link: BitRate,
    /// Bytes on the wire around each payload.
    pub headers: u32,
    /// The division of messages into packets.
    pub cut: Packetisation,
    /// The part of the link that is kept for best effort, in parts per million.
    pub best_effort_ppm: u32,
    /// The reservation of the channels' threads on a CPU, above all upcalls.
    pub cpu: Reservation,
    /// Processor time of a packet, from ring to driver.
    pub per_packet: Service,
    /// Whether the configuration states `per_packet`; if not, the measurement of this host counts.
    pub per_packet_is_said: bool,
    /// Processor time of a packet that comes in, from its socket to its client's queue. `None`: as
    /// for one that leaves.
    pub per_packet_received: Option<Service>,
    /// The delay from the time at which a channel's thread should run until it does. It is
    /// subtracted from each delay bound requested.
    pub allowance: Duration,
    /// The most channels that send at a time.
    pub room: u32,
    /// The transport of packets.
    pub wire: WireKind,
    /// The interface by which packets leave; `None`: as the kernel routes.
    pub interface: Option<String>,
    /// The mechanism that discards excessive best-effort packets; `None`: the program, if attaching
    /// it cannot reset the interface, else the filter.
    pub early_discard: Option<EarlyDiscard>,
    /// Whether the CPUs are kept from halting: on a virtual machine a halted CPU comes back late.
    pub awake: bool,
}

/// The link is taken to be slower than it is by this many parts per million, so that queues form
/// before it and not in the driver.
const SLOWER_PPM: u64 = 1_000;

impl ChannelsConfig {
    /// Returns the configuration for a link of this rate, with the defaults for everything else:
    /// packets of 1420 bytes, one at a time; half of a CPU for the channels' threads.
    pub fn of(link: BitRate) -> Self {
        Self {
            link,
            // Ethernet with its gap, IPv6, UDP, and the header of a fragment.
            headers: 38 + 40 + 8 + 32,
            cut: Packetisation::new(1_420, 1).expect("valid"),
            best_effort_ppm: 50_000,
            cpu: Reservation::new(Service::from_micros(500), Duration::from_millis(1))
                .expect("valid"),
            // With a wake-up, or the wait in its place (`sender::thread::SPIN`).
            per_packet: Service::from_micros(40),
            per_packet_is_said: false,
            per_packet_received: None,
            allowance: SenderSpec::USUAL_ALLOWANCE,
            room: 1_024,
            wire: WireKind::Udp,
            interface: None,
            early_discard: None,
            awake: false,
        }
    }

    /// Uses the measured cost of a packet that leaves, and of one that comes in, for costs that the
    /// configuration does not state. A `per_packet` in the configuration counts in both directions,
    /// unless it states the other too.
    pub fn take_measured(&mut self, leaving: Option<Service>, coming: Option<Service>) {
        if self.per_packet_is_said {
            return;
        }
        self.per_packet = leaving.unwrap_or(self.per_packet);
        self.per_packet_received = self.per_packet_received.or(coming);
    }

    /// Raises the allowance to this host's measured wake-up cost, if that is more.
    pub fn take_wake_up(&mut self, wake_up: Option<Service>) {
        let needed = wake_up.map_or(Duration::ZERO, Service::at_full_speed);
        self.allowance = self.allowance.max(needed);
    }

    /// Returns the charge for a packet that comes in.
    pub fn received_packet(&self) -> Service {
        self.per_packet_received.unwrap_or(self.per_packet)
    }

    /// Returns the egress scheduler in the form that admission uses.
    pub fn egress(&self) -> Egress {
        let link = self.reckoned_link();
        // `validate` takes no slower link.
        Egress::new(link, self.cut, self.per_packet, self.cpu, self.allowance)
            .expect("a link of at least 8 kbit/s")
    }

    /// Returns the carrier of the channels in the form that admission uses.
    pub fn carrier(&self) -> Carrier {
        Carrier {
            egress: self.egress(),
            change: Service::ZERO,
            cpu: None,
            link: Some(self.link),
            headers: self.headers,
            best_effort_ppm: self.best_effort_ppm,
            received_packet: self.received_packet(),
        }
    }

    /// Returns the link at its assumed, slightly lower rate.
    pub fn reckoned_link(&self) -> Link {
        let bits = u128::from(self.link.bits_per_second());
        let slower = 1_000_000 + u128::from(SLOWER_PPM);
        // 8·10¹² ps times the part by which it is slower.
        let picos = (8_000_000 * slower * 1_000_000).div_ceil(bits * 1_000_000);
        let picos = u64::try_from(picos).unwrap_or(u64::MAX).max(1);
        let startup = Duration::from_nanos((u64::from(self.headers) * picos).div_ceil(1_000));
        // `validate` takes no slower link.
        Link::with_picos(startup, picos).expect("a link of at least 8 kbit/s")
    }
}

/// The slowest link, in bits a second: a byte takes a millisecond.
const SLOWEST: u64 = 10_000;

pub(super) fn validate(raw: RawChannels) -> Checked<ChannelsConfig> {
    let link = *raw.link.get_ref();
    if link.bits_per_second() < SLOWEST {
        return Err(problem(&raw.link, format!("{link} is less than {SLOWEST} bit/s")));
    }
    let base = ChannelsConfig::of(link);
    let packet = number(raw.packet, base.cut.packet_bytes(), 1, 65_000)?;
    let block = number(raw.packets_per_block, base.cut.packets_per_block(), 1, 64)?;
    let time = |given: &Spanned<Service>| match *given.get_ref() {
        Service::ZERO => Err(problem(given, "no packet costs nothing; write at least 1ns")),
        time => Ok(time),
    };
    let per_packet = raw.per_packet.as_ref().map_or(Ok(base.per_packet), time)?;
    let per_packet_received = raw.per_packet_received.as_ref().map(time).transpose()?;
    let early_discard = raw.early_discard.as_ref();
    let early_discard =
        early_discard.map(|it| choice("early_discard", it, &EarlyDiscard::NAMES)).transpose()?;
    if let (Some(EarlyDiscard::Xdp), None, Some(given)) =
        (early_discard, &raw.interface, &raw.early_discard)
    {
        let why = "an XDP program is attached to an interface: say which with `interface`";
        return Err(problem(given, why));
    }
    Ok(ChannelsConfig {
        link,
        headers: number(raw.headers, base.headers, 0, 1_000)?,
        cut: Packetisation::new(packet, block).expect("neither is zero"),
        best_effort_ppm: raw.best_effort.map_or(base.best_effort_ppm, |Part(ppm)| ppm),
        cpu: raw.cpu.unwrap_or(base.cpu),
        per_packet,
        per_packet_is_said: raw.per_packet.is_some(),
        per_packet_received,
        allowance: within(raw.allowance, base.allowance, Duration::ZERO, Duration::from_secs(1))?,
        room: number(raw.room, base.room, 1, 65_536)?,
        wire: raw
            .transport
            .as_ref()
            .map_or(Ok(base.wire), |given| choice("transport", given, &WireKind::NAMES))?,
        interface: raw.interface.map(Spanned::into_inner),
        early_discard,
        awake: raw.awake.unwrap_or(base.awake),
    })
}
