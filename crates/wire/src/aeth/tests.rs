use super::*;

#[test]
fn every_syndrome_byte_survives() {
    for byte in 0..=255 {
        assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
    }
}

#[test]
fn refusals_have_the_codes_of_the_table() {
    for (byte, code) in [
        (0x60, Some(NakCode::Sequence)),
        (0x61, Some(NakCode::InvalidRequest)),
        (0x62, Some(NakCode::RemoteAccess)),
        (0x63, Some(NakCode::RemoteOperational)),
        (0x64, None),
        (0x7f, None),
    ] {
        let Syndrome::Nak(bits) = Syndrome::from_byte(byte) else {
            panic!("{byte:#x} is a NAK");
        };
        assert_eq!(NakCode::from_bits(bits), code);
        if let Some(code) = code {
            assert_eq!(Syndrome::nak(code).to_byte(), byte);
        }
    }
    assert_eq!(Syndrome::from_byte(0x40), Syndrome::Reserved(0x40));
    assert_eq!(Syndrome::from_byte(0x80), Syndrome::Reserved(0x80));
}

/// IBTA 9.7.7.2.
#[test]
fn credit_codes_are_those_of_the_table() {
    let table = [
        0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
    ];
    for (code, messages) in table.into_iter().enumerate() {
        let credits = Credits(Bits::low(code as u8));
        assert_eq!(credits.messages(), Some(messages));
        assert_eq!(Credits::at_most(messages), credits);
    }
    assert_eq!(Credits::UNLIMITED.messages(), None);
    assert_eq!(Credits::at_most(5).messages(), Some(4));
    assert_eq!(Credits::at_most(u32::MAX).messages(), Some(32768));
}

/// IBTA 9.7.5.2.8, table 45.
#[test]
fn timer_codes_are_those_of_the_table() {
    let table_us = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560,
        3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880,
        163_840, 245_760, 327_680, 491_520,
    ];
    for (code, us) in table_us.into_iter().enumerate() {
        let timer = RnrTimer(Bits::low(code as u8));
        assert_eq!(timer.delay(), Duration::from_micros(us), "code {code}");
    }
}

#[test]
fn message_counts_wrap() {
    assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
}
