//! Faults as text: `loss=1%,delay=1ms,jitter=200us,reorder=0.5%,duplicate=0.1%,corrupt=0.01%,seed=7`.

use std::fmt;
use std::str::FromStr;

/// How often something happens, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Probability(pub(crate) u32);

impl Probability {
    /// Each time.
    pub const ALWAYS: Self = Self(1_000_000);

    /// This many in a million; more than a million is each time.
    pub const fn per_million(millionths: u32) -> Self {
        if millionths < Self::ALWAYS.0 {
            Self(millionths)
        } else {
            Self::ALWAYS
        }
    }
}

/// Longest delay and jitter: ten seconds, longer than any useful timeout of a queue pair.
const LATE_NS_MAX: u64 = 10_000_000_000;

/// How a link misbehaves. The default has no faults.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultSpec {
    /// Share of frames that are lost.
    pub loss: Probability,
    /// Share of frames that arrive twice.
    pub duplicate: Probability,
    /// Share of frames with one bit flipped.
    pub corrupt: Probability,
    /// Share of frames that others overtake.
    pub reorder: Probability,
    /// Nanoseconds that every frame takes.
    pub delay_ns: u64,
    /// Most nanoseconds that a frame takes in addition, evenly distributed; frames overtake each other.
    pub jitter_ns: u64,
    /// Seed of the generator.
    pub seed: u64,
}

/// Why a text does not describe faults.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// The word names no fault.
    #[error(
        "`{0}` is no fault: there are loss, delay, jitter, reorder, duplicate, corrupt and seed, as in `loss=1%,delay=1ms,seed=7`"
    )]
    Word(String),
    /// The same word occurs twice.
    #[error("`{0}` is said twice")]
    Twice(String),
    /// The percentage is invalid.
    #[error(
        "`{word}={value}`: a share is a percentage from 0% to 100% in steps of 0.0001%, as in `{word}=0.5%`"
    )]
    Share {
        /// Name of the fault.
        word: String,
        /// The text after `=`.
        value: String,
    },
    /// The time is invalid.
    #[error(
        "`{word}={value}`: a time is a whole number of ns, us, ms or s up to 10s, as in `{word}=200us`"
    )]
    Time {
        /// Name of the fault.
        word: String,
        /// The text after `=`.
        value: String,
    },
    /// The seed is invalid.
    #[error("`seed={0}`: a seed is a whole number from 0 to 2^64-1")]
    Seed(String),
}

impl FromStr for FaultSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        let mut said = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (word, value) = part
                .split_once('=')
                .ok_or_else(|| SpecError::Word(part.to_owned()))?;
            if said.contains(&word) {
                return Err(SpecError::Twice(word.to_owned()));
            }
            said.push(word);
            spec.set(word, value)?;
        }
        Ok(spec)
    }
}

impl FaultSpec {
    fn set(&mut self, word: &str, value: &str) -> Result<(), SpecError> {
        let bad_share = || SpecError::Share {
            word: word.to_owned(),
            value: value.to_owned(),
        };
        let bad_time = || SpecError::Time {
            word: word.to_owned(),
            value: value.to_owned(),
        };
        match word {
            "loss" => self.loss = share(value).ok_or_else(bad_share)?,
            "duplicate" => self.duplicate = share(value).ok_or_else(bad_share)?,
            "corrupt" => self.corrupt = share(value).ok_or_else(bad_share)?,
            "reorder" => self.reorder = share(value).ok_or_else(bad_share)?,
            "delay" => self.delay_ns = time(value).ok_or_else(bad_time)?,
            "jitter" => self.jitter_ns = time(value).ok_or_else(bad_time)?,
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| SpecError::Seed(value.to_owned()))?;
            }
            _ => return Err(SpecError::Word(word.to_owned())),
        }
        Ok(())
    }

    /// Whether the link has no faults.
    pub fn is_none(&self) -> bool {
        let seed = self.seed;
        *self
            == Self {
                seed,
                ..Self::default()
            }
    }
}

/// Parses `12.5%` into millionths, exactly.
fn share(text: &str) -> Option<Probability> {
    let number = text.strip_suffix('%')?;
    let (whole, rest) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 4 {
        return None;
    }
    let rest = format!("{rest:0<4}");
    let whole: u32 = whole.parse().ok().filter(|&whole| whole <= 100)?;
    let millionths = whole * 10_000 + rest.parse::<u32>().ok()?;
    (millionths <= Probability::ALWAYS.0).then_some(Probability(millionths))
}

fn time(text: &str) -> Option<u64> {
    let units = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    let (number, unit) = units
        .iter()
        .find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    if number.starts_with('+') {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit).filter(|&ns| ns <= LATE_NS_MAX)
}

/// Writes the text that parses as the same faults.
impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("reorder", self.reorder),
        ];
        for (word, Probability(millionths)) in shares.into_iter().filter(|(_, share)| share.0 > 0) {
            write!(
                f,
                "{word}={}.{:04}%,",
                millionths / 10_000,
                millionths % 10_000
            )?;
        }
        for (word, ns) in [("delay", self.delay_ns), ("jitter", self.jitter_ns)] {
            if ns > 0 {
                write!(f, "{word}={ns}ns,")?;
            }
        }
        write!(f, "seed={}", self.seed)
    }
}
