//! Packets for testing the program.

use std::net::{IpAddr, SocketAddr};

/// Returns an Ethernet frame with an empty UDP datagram to `flow`, with this many words of IPv4
/// options.
pub(super) fn to(flow: SocketAddr, options: u8) -> Vec<u8> {
    let mut packet = vec![0; 12];
    match flow.ip() {
        IpAddr::V4(v4) => {
            let fixed = [0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 9];
            packet.extend([0x08, 0x00, 0x45 + options]);
            packet.extend(fixed);
            packet.extend(v4.octets());
            packet.extend(vec![0; 4 * usize::from(options)]);
        }
        IpAddr::V6(v6) => {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            packet.extend([0; 16]);
            packet.extend(v6.octets());
        }
    }
    packet.extend(9_u16.to_be_bytes());
    packet.extend(flow.port().to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}
