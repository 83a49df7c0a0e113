//! Tokens that prove who calls, and the digests of them that the file holds.
//!
//! A token is `tnr_`, 43 characters of base64url for 256 random bits, and 6 characters of base 62 for the CRC-32 of what
//! is before them. The beginning and the checksum let scanners find leaked tokens in texts.

use std::{fmt, hash::Hash, hash::Hasher, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::clock::Entropy;

/// What each token begins with.
pub(super) const PREFIX: &str = "tnr_";
/// What each digest begins with, in the file.
const SCHEME: &str = "sha256:";
/// The characters of 256 bits in base64url.
const RANDOM_CHARACTERS: usize = 43;
/// The characters of 32 bits in base 62.
const CHECK_CHARACTERS: usize = 6;
const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A token. It is never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAToken {
    /// It does not look like one.
    #[error("is no token: a token is tnr_ and 49 characters")]
    Form,
    /// It looks like one, but its last characters do not fit the others.
    #[error("is no token: its checksum is wrong, so some of it is missing or changed")]
    Checksum,
}

impl Token {
    /// A new token. Its source must be cryptographic, as the system's is.
    #[must_use]
    pub fn draw(entropy: &dyn Entropy) -> Self {
        let mut bits = [0; 32];
        entropy.fill(&mut bits);
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits));
        let check = checksum(&text);
        Self(text + &check)
    }

    /// The token as text, for whoever will call with it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that the file holds.
    #[must_use]
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        const BODY: usize = PREFIX.len() + RANDOM_CHARACTERS;
        let random = text.strip_prefix(PREFIX).and_then(|rest| rest.get(..RANDOM_CHARACTERS));
        let random = random.filter(|_| text.len() == BODY + CHECK_CHARACTERS);
        let bits = random.and_then(|random| URL_SAFE_NO_PAD.decode(random).ok());
        if bits.is_none() {
            return Err(NotAToken::Form);
        }
        let (body, check) = text.split_at(BODY);
        if checksum(body) == check { Ok(Self(text.to_owned())) } else { Err(NotAToken::Checksum) }
    }
}

fn checksum(text: &str) -> String {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut digits = [BASE_62[0]; CHECK_CHARACTERS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE_62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.map(char::from).iter().collect()
}

/// The SHA-256 of a token. Two of them are compared in constant time.
#[derive(Clone, Copy, Debug)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of what a caller sent, whether it has the form of a token or not.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self::of_bytes(token.as_bytes())
    }

    /// The digest by which a token or a JWT is revoked; `None` if the text can be neither. That of a JWT leaves out the
    /// signature: whoever has the JWT can make another valid signature of some algorithms.
    #[must_use]
    pub fn of_credential(text: &str) -> Option<Self> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            return None;
        }
        let is_jwt =
            !text.starts_with(PREFIX) && text.bytes().filter(|byte| *byte == b'.').count() == 2;
        let signed = text.rsplit_once('.').filter(|_| is_jwt).map(|(signed, _)| signed);
        Some(Self::of(signed.unwrap_or(text)))
    }

    /// The digest of other bytes, such as those of a certificate.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

impl Hash for TokenDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TokenDigest {
    type Err = &'static str;

    /// The error does not quote the text, which may be a secret.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.starts_with(PREFIX) {
            return Err(
                "is a token: only its digest belongs here, so draw a new one with \"tenure token \
                        new\", which prints both",
            );
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
        let hex = text.strip_prefix(SCHEME).filter(|hex| hex.len() == 64);
        let bytes: Option<Vec<u8>> =
            hex.and_then(|hex| hex.as_bytes().as_chunks::<2>().0.iter().map(byte).collect());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(
            "is not the digest of a token: write \"sha256:\" and 64 hexadecimal digits, as \"tenure token \
             new\" prints them",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::clock::{SeededEntropy, SystemEntropy};

    #[test]
    fn a_token_is_read_as_it_was_drawn_and_no_two_are_alike() {
        let source = SystemEntropy::new();
        let drawn: Vec<Token> = (0..100).map(|_| Token::draw(&source)).collect();
        let texts: HashSet<&str> = drawn.iter().map(Token::reveal).collect();
        assert_eq!(texts.len(), drawn.len());
        for token in &drawn {
            assert_eq!(token.reveal().len(), 53);
            assert_eq!(token.reveal().parse().as_ref(), Ok(token));
            assert_eq!(token.digest(), TokenDigest::of(token.reveal()));
            assert_eq!(token.digest().to_string().parse(), Ok(token.digest()));
        }
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_none() {
        let token = Token::draw(&SeededEntropy::new(1)).reveal().to_owned();
        for at in 0..token.len() {
            let other = if token.as_bytes()[at] == b'x' { "y" } else { "x" };
            let mut changed = token.clone();
            changed.replace_range(at..=at, other);
            assert!(changed.parse::<Token>().is_err(), "{changed}");
            assert!(token[..at].parse::<Token>().is_err());
        }
        assert_eq!(format!("{token}0").parse::<Token>(), Err(NotAToken::Form));
        assert_eq!("ü".repeat(26).parse::<Token>(), Err(NotAToken::Form));
        assert_eq!(format!("tnr_{}", "ü".repeat(24)).parse::<Token>(), Err(NotAToken::Form));
    }

    #[test]
    fn a_digest_is_that_of_sha_256_and_no_token_is_shown() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenDigest::of("abc").to_string(), known);
        assert_eq!(
            known.to_uppercase().replace("SHA256", "sha256").parse(),
            Ok(TokenDigest::of("abc"))
        );
        let token = Token::draw(&SeededEntropy::new(2));
        assert_eq!(format!("{token:?}"), "Token(…)");
        let fault = token.reveal().parse::<TokenDigest>().unwrap_err();
        assert!(fault.contains("is a token") && !fault.contains(token.reveal()), "{fault}");
        for odd in ["", "sha256:", &known[7..], &known[..70], "sha512:00", &known.replace('b', "g")]
        {
            assert!(odd.parse::<TokenDigest>().unwrap_err().contains("64 hexadecimal"), "{odd}");
        }
    }
}
