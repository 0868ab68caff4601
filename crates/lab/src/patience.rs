//! Time limits on slow machines: a guest that runs guests of its own can only be told by a variable how slow it is.

use std::env;
use std::time::Duration;

use anyhow::{Result, bail};

/// A whole number by which limits are multiplied.
pub const PATIENCE_VARIABLE: &str = "VRDMA_LAB_PATIENCE";

/// Largest factor.
const PATIENCE_MAX: u32 = 60;

/// Multiplies a limit for this machine.
///
/// # Errors
/// When the variable holds anything but such a number.
pub fn patient(limit: Duration) -> Result<Duration> {
    let given = env::var(PATIENCE_VARIABLE).unwrap_or_default();
    Ok(limit * factor(&given)?)
}

fn factor(given: &str) -> Result<u32> {
    match given.parse() {
        _ if given.is_empty() => Ok(1),
        Ok(factor @ 1..=PATIENCE_MAX) => Ok(factor),
        _ => bail!(
            "{PATIENCE_VARIABLE} is {given:?}; it may be a whole number from 1 to {PATIENCE_MAX}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_small_whole_number() {
        assert_eq!(factor("").unwrap(), 1);
        assert_eq!(factor("8").unwrap(), 8);
        for wrong in ["0", "61", "-1", "2.5", "much"] {
            assert!(factor(wrong).is_err(), "{wrong}");
        }
    }
}
