//! The programs run in a small interpreter and must agree with `is_for_adapters`.

use super::assembler::*;
use super::*;
use proptest::prelude::*;

/// Returns what the kernel would return.
fn run(program: &[Instruction], packet: &[u8]) -> u32 {
    let half = |at: usize| {
        Some(u32::from(u16::from_be_bytes(
            *packet.get(at..)?.first_chunk()?,
        )))
    };
    let byte = |at: usize| packet.get(at).map(|&byte| u32::from(byte));
    let (mut accumulator, mut index, mut at) = (0, 0, 0);
    loop {
        let instruction = program[at];
        let operand = instruction.operand as usize;
        at += 1;
        let loaded = match instruction.code {
            LOAD_HALF => half(operand),
            LOAD_BYTE => byte(operand),
            LOAD_HALF_INDEXED => half(operand + index),
            LOAD_INDEX_NIBBLE => {
                let Some(value) = byte(operand) else { return 0 };
                index = (value as usize & 0xf) * 4;
                continue;
            }
            JUMP => {
                at += operand;
                continue;
            }
            JUMP_EQUAL | JUMP_ANY_BIT => {
                let holds = match instruction.code {
                    JUMP_EQUAL => accumulator == instruction.operand,
                    _ => accumulator & instruction.operand != 0,
                };
                at += usize::from(if holds {
                    instruction.jump_true
                } else {
                    instruction.jump_false
                });
                continue;
            }
            RETURN => return instruction.operand,
            code => panic!("instruction {code:#x}"),
        };
        match loaded {
            Some(value) => accumulator = value,
            None => return 0,
        }
    }
}

fn ethernet(tag: bool, ether_type: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if tag {
        frame.extend([0x81, 0, 0x60, 7]);
    }
    frame.extend(ether_type.to_be_bytes());
    frame
}

fn v4(tag: bool, options: usize, fragment: u16, protocol: u8, port: u16) -> Vec<u8> {
    let mut frame = ethernet(tag, 0x0800);
    frame.extend([0x45 + options as u8, 0, 0, 0, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(vec![1; 4 * options]);
    frame.extend([0xc0, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

fn v6(tag: bool, next: u8, port: u16) -> Vec<u8> {
    let mut frame = ethernet(tag, 0x86dd);
    frame.extend([0x60, 0, 0, 0, 0, 24, next, 64]);
    frame.extend([0xfd; 32]);
    frame.extend([0xc0, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let port = prop_oneof![Just(4791), Just(4797), Just(4790), any::<u16>()];
    let protocol = prop_oneof![3 => Just(17), 1 => Just(6), 1 => any::<u8>()];
    let fragment =
        prop_oneof![4 => Just(0), 1 => Just(0x2000), 1 => Just(0x4000), 1 => any::<u16>()];
    let v4 = (
        any::<bool>(),
        0usize..11,
        fragment,
        protocol.clone(),
        port.clone(),
    )
        .prop_map(|(tag, options, fragment, protocol, port)| {
            v4(tag, options, fragment, protocol, port)
        });
    let v6 = (any::<bool>(), protocol, port).prop_map(|(tag, next, port)| v6(tag, next, port));
    let other = (any::<bool>(), any::<u16>()).prop_map(|(tag, kind)| {
        let mut frame = ethernet(tag, kind);
        frame.extend([0; 46]);
        frame
    });
    prop_oneof![v4, v6, other]
}

/// Returns frames, each with whether it is for the shard.
fn examples() -> Vec<(Vec<u8>, bool)> {
    vec![
        (v4(false, 0, 0, 17, 4791), true),
        (v4(true, 0, 0x4000, 17, 4791), true),
        (v4(false, 10, 0, 17, 4791), true),
        (v6(false, 17, 4791), true),
        (v6(true, 17, 4791), true),
        (v4(false, 0, 0, 17, 4797), true),
        (v6(true, 17, 4797), true),
        (v4(false, 0, 0, 17, 4792), false),
        (v4(false, 0, 0, 6, 4791), false),
        (v4(false, 0, 185, 17, 4791), false),
        (v6(false, 6, 4791), false),
        (
            [ethernet(true, 0x8100), v4(false, 0, 0, 17, 4791)].concat(),
            false,
        ),
        ([ethernet(false, 0x0806), vec![0; 46]].concat(), false),
    ]
}

#[test]
fn what_adapters_say_is_told_from_the_rest() {
    for (frame, roce) in examples() {
        assert_eq!(is_for_adapters(&frame), roce, "{frame:02x?}");
    }
    assert!(!is_for_adapters(&[]));
    assert!(!is_for_adapters(&v4(false, 0, 0, 17, 4791)[..37]));
}

proptest! {
    #[test]
    fn the_programs_agree_on_whole_frames(frame in frames()) {
        let roce = is_for_adapters(&frame);
        let taken = |select| run(&frame_filter(select), &frame) == u32::MAX;
        prop_assert_eq!(taken(Select::Roce), roce);
        prop_assert_eq!(taken(Select::Rest), !roce);
        let datagram = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &frame].concat();
        prop_assert_eq!(run(&tunnel_selector(), &datagram), u32::from(roce));
        let sealed = |kind: u8| [&[seal::MARK, kind][..], &frame].concat();
        prop_assert_eq!(run(&tunnel_selector(), &sealed(3)), 0);
        prop_assert_eq!(run(&tunnel_selector(), &sealed(3 | seal::FOR_ROCE)), ROCE_PLACE);
    }

    #[test]
    fn nothing_is_taken_twice(frame in frames(), cut in any::<prop::sample::Index>()) {
        let frame = &frame[..cut.index(frame.len() + 1)];
        let taken = |select| run(&frame_filter(select), frame) != 0;
        prop_assert!(!(taken(Select::Roce) && taken(Select::Rest)));
        prop_assert_eq!(taken(Select::Roce), is_for_adapters(frame));
    }
}
