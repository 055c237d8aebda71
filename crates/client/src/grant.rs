//! The identity of a grant: its number, and the secret that proves ownership after a reconnection.

use std::fmt;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// The number of a grant. Never given twice while the ledger exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GrantId(pub u64);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A secret of 128 bits that only the holder of a grant gets; 32 hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token([u8; 16]);

impl Token {
    /// Draws a new token with getrandom(2).
    pub fn draw() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
        // Up to 256 bytes come whole (getrandom(2)); check it.
        if filled == bytes.len() {
            Ok(Self(bytes))
        } else {
            Err(std::io::ErrorKind::Interrupted.into())
        }
    }
}

/// The error for a text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 32 hexadecimal digits")]
pub struct NoToken;

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let digits = text.as_bytes();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(NoToken);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NoToken)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl TryFrom<String> for Token {
    type Error = NoToken;

    fn try_from(text: String) -> Result<Self, NoToken> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        format!("{:032x}", u128::from_be_bytes(token.0))
    }
}

/// Omits the secret: it must not appear in a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_their_text_and_keep_their_secret_from_logs() {
        let token = Token::draw().expect("the kernel has random bytes");
        let text = String::from(token);
        assert_eq!(text.parse(), Ok(token));
        assert_ne!(Token::draw().expect("again"), token);
        assert!(!format!("{token:?}").contains(&text[..4]));
        for bad in ["", "12", "+0000000000000000000000000000001", &"g".repeat(32)] {
            assert_eq!(bad.parse::<Token>(), Err(NoToken), "{bad}");
        }
    }
}
