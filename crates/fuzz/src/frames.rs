//! Frames of any bytes with correct checksums: checksums guard against accidents, but not against a sender who computes
//! them, and would keep the fuzzer from the code behind them.

use vrdma_wire::internet_checksum;

use crate::input::Input;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;

/// Takes a frame from an input and, if the input selects that, corrects it.
pub(crate) fn frame(input: &mut Input<'_>) -> Vec<u8> {
    let is_mended = input.is_odd();
    let mut frame = input.block().to_vec();
    if is_mended {
        mend(&mut frame);
    }
    frame
}

/// Corrects lengths and checksums of a frame, as far as it has any.
fn mend(frame: &mut [u8]) {
    let Some((header, packet)) = frame.split_at_mut_checked(ETHERNET_BYTES) else {
        return;
    };
    match [header[12], header[13]] {
        [0x08, 0x00] => mend_ipv4(packet),
        [0x86, 0xdd] => mend_ipv6(packet),
        _ => {}
    }
}

fn mend_ipv4(packet: &mut [u8]) {
    let length = packet.len() as u16;
    let words = packet.first().map_or(0, |first| usize::from(first & 0xf));
    if words * 4 < IPV4_BYTES || packet.len() < words * 4 {
        return;
    }
    let (header, message) = packet.split_at_mut(words * 4);
    header[2..4].copy_from_slice(&length.to_be_bytes());
    store(header, 10, internet_checksum);
    if matches!(header[9], ICMP | IGMP) && message.len() >= 4 {
        store(message, 2, internet_checksum);
    }
}

fn mend_ipv6(packet: &mut [u8]) {
    let Some((header, payload)) = packet.split_at_mut_checked(IPV6_BYTES) else {
        return;
    };
    header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    let skipped = match (header[6], payload) {
        (HOP_BY_HOP, [ICMPV6, words, ..]) => 8 + usize::from(*words) * 8,
        (ICMPV6, _) => 0,
        _ => return,
    };
    let addresses = header[8..].to_vec();
    let payload = &mut packet[IPV6_BYTES..];
    let Some(message) = payload
        .get_mut(skipped..)
        .filter(|message| message.len() >= 4)
    else {
        return;
    };
    let tail = [
        &(message.len() as u32).to_be_bytes()[..],
        &[0, 0, 0, ICMPV6],
    ]
    .concat();
    store(message, 2, |message| {
        internet_checksum(&[&addresses[..], &tail, message].concat())
    });
}

/// Stores a checksum over bytes in which its own place counts as zero.
fn store(bytes: &mut [u8], at: usize, sum: impl FnOnce(&[u8]) -> u16) {
    bytes[at..at + 2].fill(0);
    let sum = sum(bytes);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
