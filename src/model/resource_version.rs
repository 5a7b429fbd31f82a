//! Kubernetes' resourceVersion: equality always, order only inside one collection. Not the API version.

use std::fmt;
use std::str::FromStr;

/// A resourceVersion as KEP-5504 defines it: a decimal number without leading zeros, above zero. KEP-5504 allows 128
/// bits; here it has at most 94, so that it and its epoch are one number. API servers count in 63.
///
/// Held as a number: comparing digits by length and then by bytes is comparing numbers, and a copyable number needs no
/// allocation for each of a hundred thousand keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(u128);

/// The text is not a resourceVersion as KEP-5504 defines it, or larger than any that is counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion {0:?} is not a decimal number above zero without leading zeros, of at most 94 bits")]
pub struct ParseResourceVersionError(String);

impl ResourceVersion {
    /// Bits of the largest one.
    pub const BITS: u32 = 94;

    /// The version with this number; `None` for zero, which Kubernetes reserves for "any version", and for what is
    /// larger than [`ResourceVersion::BITS`].
    pub fn new(number: u128) -> Option<Self> {
        (number > 0 && number >> Self::BITS == 0).then_some(Self(number))
    }

    /// The number itself.
    pub fn get(self) -> u128 {
        self.0
    }
}

impl FromStr for ResourceVersion {
    type Err = ParseResourceVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || ParseResourceVersionError(text.chars().take(64).collect());
        if text.is_empty() || text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        text.parse().ok().and_then(Self::new).ok_or_else(malformed)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rv{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_numbers_whatever_the_length() {
        let parse = |text: &str| text.parse::<ResourceVersion>().unwrap();
        assert!(parse("9") < parse("10"));
        assert!(parse("19807040628566084398385987583") > parse("99999999999999999999"));
        assert_eq!(parse("42").to_string(), "42");
    }

    #[test]
    fn what_kubernetes_never_hands_out_is_refused() {
        for text in ["", "0", "007", "-1", "+1", "1a", "rv:-1", "19807040628566084398385987584"] {
            assert!(text.parse::<ResourceVersion>().is_err(), "{text}");
        }
    }
}
