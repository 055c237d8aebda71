//! Checks the bytes of XID frames as they are on the line.

use super::*;
use crate::v42bis::Sizes;

fn plain() -> Offer {
    Offer { limits: Limits::both(128, 15), compression: Compression::default() }
}

#[test]
fn compression_is_a_group_of_its_own_and_both_must_want_it() {
    let compression = Compression::both(Sizes::default());
    let field = Offer { compression, ..plain() }.write();
    let expected = [
        0xf0, 0x00, 0x0f, // the private group, 15 bytes
        0x00, 0x03, b'V', b'4', b'2', // the set's name
        0x01, 0x01, 0x03, // P0: both ways
        0x02, 0x02, 0x08, 0x00, // P1: 2048 codewords
        0x03, 0x01, 0x20, // P2: 32 octets
    ];
    assert_eq!(field[24..], expected);
    assert_eq!(Offer::parse(&field), Some(Offer { compression, ..plain() }));
    let other = Compression {
        from_caller: false,
        from_answerer: true,
        sizes: Sizes::new(512, 250).expect("in range"),
    };
    let agreed = compression.agreed_with(other);
    assert!(!agreed.from_caller && agreed.from_answerer);
    assert_eq!((agreed.sizes.codewords(), agreed.sizes.string()), (512, 32));
    assert!(!compression.agreed_with(Compression::default()).is_any());
}

#[test]
fn compression_that_cannot_be_is_none_and_one_that_is_cut_off_is_nonsense() {
    let with = |group: &[u8]| {
        let mut field = plain().write();
        field.extend([0xf0, 0, group.len() as u8]);
        field.extend(group);
        Offer::parse(&field).map(|offer| offer.compression)
    };
    let none = Some(Compression::default());
    assert_eq!(with(b"\0\x03V43\x01\x01\x03"), none, "another's group");
    assert_eq!(with(b"\x01\x01\x03"), none, "nobody's");
    assert_eq!(with(b"\0\x03V42\x01\x01\x03\x02\x02\0\x10"), none, "16 codewords");
    assert_eq!(with(b"\0\x03V42\x01\x01\x03\x03\x01\xff"), none, "strings of 255");
    assert_eq!(with(b"\0\x03V42\x01\x02\x03"), None);
    let most = with(b"\0\x03V42\x01\x01\x01\x02\x02\xff\xff").expect("more than we have");
    assert!(most.from_caller && !most.from_answerer);
    assert_eq!((most.sizes.codewords(), most.sizes.string()), (4_096, 6));
}

#[test]
fn the_default_offer_has_the_bytes_of_the_recommendation() {
    let expected = [
        0x82, 0x80, 0x00, 0x14, // general purpose, 20 bytes
        0x03, 0x04, 0x8a, 0x89, 0x00, 0x00, // HDLC optional functions
        0x05, 0x02, 0x04, 0x00, 0x06, 0x02, 0x04, 0x00, // N401: 1024 bits each way
        0x07, 0x01, 0x0f, 0x08, 0x01, 0x0f, // k: 15 each way
    ];
    assert_eq!(plain().write(), expected);
    assert_eq!(Offer::parse(&expected), Some(plain()));
}

#[test]
fn both_ends_come_to_the_same_agreement() {
    let one = Limits { n401_sent: 64, n401_received: 128, k_sent: 7, k_received: 15 };
    let other = Limits { n401_sent: 100, n401_received: 32, k_sent: 4, k_received: 3 };
    let seen = one.agreed_with(other);
    assert_eq!(seen, Limits { n401_sent: 32, n401_received: 100, k_sent: 3, k_received: 4 });
    let back = other.agreed_with(one);
    assert_eq!((back.n401_sent, back.n401_received), (100, 32));
    assert_eq!((back.k_sent, back.k_received), (4, 3));
}

#[test]
fn unknown_parameters_are_passed_over_and_nonsense_is_refused() {
    let with = |parameters: &[u8]| {
        Offer::parse(&[&[0x82, 0x80, 0, parameters.len() as u8], parameters].concat())
            .map(|offer| offer.limits)
    };
    assert_eq!(with(&[]), Some(Limits::both(128, 15)));
    assert_eq!(with(&[0x42, 3, 1, 2, 3, 7, 1, 4]).map(|l| l.k_sent), Some(4));
    assert_eq!(with(&[7, 1, 0]), None, "a window of nothing");
    assert_eq!(with(&[7, 1, 128]), None);
    assert_eq!(with(&[5, 2, 0, 0]), None);
    assert_eq!(with(&[5, 2, 0]), None, "cut off");
    assert_eq!(with(&[5]), None);
    assert_eq!(with(&[5, 5, 1, 0, 0, 0, 0]), None, "more than 32 bits");
    assert_eq!(with(&[5, 2, 0xff, 0xff]).map(|l| l.n401_sent), Some(256));
    assert_eq!(Offer::parse(&[0x82, 0x80, 0, 9]), None);
    assert_eq!(Offer::parse(&[0x81, 0x80, 0, 0]), None);
    assert_eq!(Offer::parse(&[0x82]), None);
    // An unknown group is skipped, before or after the known one.
    let known = plain().write();
    let unknown = [0xff, 0, 1, 0];
    assert_eq!(Offer::parse(&[&known[..], &unknown].concat()), Some(plain()));
    assert_eq!(Offer::parse(&[&[0x82], &unknown[..], &known[1..]].concat()), Some(plain()));
}
