//! Passwords, of which only the SHA-256 is kept.

use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// A password.
#[derive(Clone, Copy)]
pub(crate) struct Password([u8; 32]);

impl Password {
    /// A password in clear text.
    pub(crate) fn of(clear: &[u8]) -> Self {
        Self(Sha256::digest(clear).into())
    }

    /// The password of this hash, 64 digits in lower case.
    pub(super) fn from_hex(digits: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 64)?;
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            let pair = &digits.as_bytes()[at..at + 2];
            let are_digits = pair.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            *byte = are_digits.then(|| u8::from_str_radix(&digits[at..at + 2], 16).ok())??;
        }
        Some(Self(hash))
    }

    /// Its hash, 64 digits.
    pub(super) fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("memory takes what is written");
            text
        })
    }

    /// Whether they are the same. The time says nothing about where they differ.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.is(other)
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_64_digits_in_lower_case() {
        let password = Password::of(b"secret");
        let hex = password.hex();
        assert_eq!(Password::from_hex(hex.as_bytes()), Some(password));
        for other in [&hex[1..], &hex.to_uppercase(), &hex.replace('2', "+"), &format!("{hex}0"), &"é".repeat(32)] {
            assert_eq!(Password::from_hex(other.as_bytes()), None, "{other}");
        }
        assert_ne!(Password::of(b"secret"), Password::of(b"secreT"));
        assert!(!format!("{password:?}").contains(&hex[..8]));
    }
}
