//! Static rates (IBTA 1.8, 9.11): the codes of `enum ibv_rate`.

use core::ffi::{c_int, c_uint};

/// Code, multiple of 2.5 Gbit/s (-1 if it is none), Mbit/s.
const RATES: [(c_uint, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, -1, 14_062),
    (12, -1, 56_250),
    (13, -1, 112_500),
    (14, -1, 168_750),
    (15, -1, 25_781),
    (16, -1, 103_125),
    (17, -1, 206_250),
    (18, -1, 309_375),
    (19, 11, 28_125),
    (20, 20, 50_000),
    (21, 160, 400_000),
    (22, 240, 600_000),
    (23, 320, 800_000),
    (24, 480, 1_200_000),
];

/// `IBV_RATE_MAX`: no limit.
const MAX: c_uint = 0;

/// `ibv_rate_to_mult`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_uint) -> c_int {
    RATES
        .iter()
        .find(|(code, ..)| *code == rate)
        .map_or(-1, |(_, multiple, _)| *multiple)
}

/// `mult_to_ibv_rate`.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_uint {
    let known = RATES
        .iter()
        .find(|(_, candidate, _)| *candidate == multiple && multiple > 0);
    known.map_or(MAX, |(code, ..)| *code)
}

/// `ibv_rate_to_mbps`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_uint) -> c_int {
    RATES
        .iter()
        .find(|(code, ..)| *code == rate)
        .map_or(-1, |(.., mbps)| *mbps)
}

/// `mbps_to_ibv_rate`.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_uint {
    RATES
        .iter()
        .find(|(.., candidate)| *candidate == mbps)
        .map_or(MAX, |(code, ..)| *code)
}
