//! The secret that both ends of a tunnel have, or both daemons of a handover.

use std::fmt;
use std::str::FromStr;

use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Both ends contribute an ephemeral secret, so recorded datagrams cannot be opened later, whatever happens to the key,
/// and no end has to remember anything or have the right time. The key proves who they are.
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Most keys of one file: one in use, and, while keys are changed, another one that is accepted as well.
const KEYS_MAX: usize = 2;

/// One secret. Nothing prints it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
struct Key([u8; KEY_BYTES]);

/// Contents of a key file: the first key is used to call, each is accepted from callers.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    first: Key,
    second: Option<Key>,
}

/// Why a text is not a key file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotKeys {
    /// The text is empty, or has comments only.
    #[error("it has no key; `openssl rand -hex 32` makes one")]
    None,
    /// There is a third key.
    #[error(
        "it has more than {KEYS_MAX} keys: the one in use, and one more while keys are changed"
    )]
    TooMany,
    /// This line has something else.
    #[error(
        "line {0} is no key: write 64 hexadecimal digits, as `openssl rand -hex 32` prints them"
    )]
    Line(usize),
}

impl Keys {
    /// Begins a handshake that calls with the first key. The prologue says what it is for: for another purpose it is
    /// invalid. `None` if the system has no random numbers.
    pub fn caller(&self, prologue: &[u8]) -> Option<HandshakeState> {
        builder(&self.first, prologue)?.build_initiator().ok()
    }

    /// Returns handshakes that may take a call, one for each key.
    pub fn callees(&self, prologue: &[u8]) -> impl Iterator<Item = HandshakeState> {
        self.all()
            .filter_map(move |key| builder(key, prologue)?.build_responder().ok())
    }

    fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

fn builder<'a>(key: &'a Key, prologue: &'a [u8]) -> Option<Builder<'a>> {
    let builder = Builder::new(PATTERN.parse().ok()?).psk(0, &key.0).ok()?;
    builder.prologue(prologue).ok()
}

impl FromStr for Keys {
    type Err = NotKeys;

    /// Parses one key a line; empty lines and lines that begin with `#` are ignored.
    fn from_str(text: &str) -> Result<Self, NotKeys> {
        let lines = text.lines().map(str::trim).zip(1..);
        let keys = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let mut keys = keys.map(|(line, number)| parse(line).ok_or(NotKeys::Line(number)));
        let first = keys.next().ok_or(NotKeys::None)??;
        let second = keys.next().transpose()?;
        match keys.next() {
            Some(_) => Err(NotKeys::TooMany),
            None => Ok(Self { first, second }),
        }
    }
}

fn parse(line: &str) -> Option<Key> {
    let mut key = Key([0; KEY_BYTES]);
    let digits = line.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, pair) in key.0.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(key)
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_key_or_two() {
        let (one, two) = ("00".repeat(31) + "1f", "Ab".repeat(32));
        let keys: Keys = format!("# since May\n\n {one} \n").parse().unwrap();
        let mut expected = [0; 32];
        expected[31] = 0x1f;
        assert_eq!(keys.first.0, expected);
        assert_eq!(keys.all().count(), 1);
        let keys: Keys = format!("{one}\n{two}\n").parse().unwrap();
        assert_eq!(keys.all().last().unwrap().0, [0xab; 32]);
        assert_eq!(format!("{keys:?}"), "Keys(not shown)");
    }

    #[test]
    fn what_is_no_key_is_named() {
        let (key, short) = ("00".repeat(32), "0".repeat(63));
        let parsed = |text: &str| text.parse::<Keys>();
        assert_eq!(parsed("\n# none\n"), Err(NotKeys::None));
        for bad in [
            &*short,
            "x",
            &("zz".repeat(32)),
            &("+0".repeat(32)),
            &format!("{key}0"),
        ] {
            assert_eq!(
                parsed(&format!("{key}\n{bad}")),
                Err(NotKeys::Line(2)),
                "{bad}"
            );
        }
        assert_eq!(
            parsed(&format!("{key}\n{key}\n{key}")),
            Err(NotKeys::TooMany)
        );
    }
}
