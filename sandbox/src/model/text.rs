//! Small texts that the API server writes: times, uids, the unpadded base64 of its tokens. Not what they stand for.

use std::time::Duration;

/// A time since 1970 in seconds, as RFC 3339.
pub(super) fn timestamp(at: Duration) -> String {
    let seconds = at.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The uid of the so-and-so-manieth object: shaped as a random one, and spread as one, but always the same.
pub(super) fn uid(number: u64) -> String {
    let (high, low) = (mix(number), mix(number ^ 0x5bd1_e995_9e37_79b9));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48 & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// What `generateName` appends.
pub(super) fn suffix(number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut left = mix(number);
    let mut letter = || {
        let at = usize::try_from(left % 27).unwrap_or(0);
        left /= 27;
        char::from(LETTERS[at])
    };
    [letter(), letter(), letter(), letter(), letter()].iter().collect()
}

/// The finaliser of splitmix64: one to one, so that no two numbers share a uid.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for URLs, without padding.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text
}

/// Undoes [`to_base64`].
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = DIGITS.iter().position(|digit| *digit == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| timestamp(Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_796_143_412), "2026-12-01T16:43:32Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
    }

    #[test]
    fn base64_is_the_one_of_the_server_s_tokens() {
        let token = "{\"v\":\"meta.k8s.io/v1\",\"rv\":228,\"start\":\"/b\\u0000\"}";
        assert_eq!(to_base64(token.as_bytes()), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjI4LCJzdGFydCI6Ii9iXHUwMDAwIn0");
        for length in 0..9 {
            let bytes: Vec<u8> = (0..length).map(|at| at * 31).collect();
            assert_eq!(from_base64(&to_base64(&bytes)).unwrap(), bytes);
        }
        assert_eq!(from_base64("a b"), None);
    }

    #[test]
    fn uids_have_the_shape_of_random_ones_and_differ() {
        let uids: std::collections::BTreeSet<String> = (0..1_000).map(uid).collect();
        assert_eq!(uids.len(), 1_000);
        assert!(uids.iter().all(|uid| uid.len() == 36 && uid.as_bytes()[14] == b'4'));
    }
}
