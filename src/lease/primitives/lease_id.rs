//! The secret that authorises heartbeat, release and transfer of one tenure.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{key::Key, nonce::Nonce, owner::PrincipalDigest};

/// The secret from which lease ids are derived. It lives in the store's `meta` or in the settings, never in a record.
#[derive(Clone)]
pub struct ClusterSecret(Hmac<Sha256>);

impl ClusterSecret {
    /// Wraps 32 random bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(Hmac::new_from_slice(bytes).expect("HMAC takes keys of any length"))
    }

    /// A separate key for another purpose. The purpose contains no NUL, so no lease id is derived from the same input.
    #[must_use]
    pub fn key_of(&self, purpose: &'static str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(purpose.as_bytes());
        Hmac::new_from_slice(&mac.finalize().into_bytes()).expect("HMAC takes keys of any length")
    }

    /// The first 128 bits of `HMAC-SHA-256(secret, key ‖ 0 ‖ grant nonce)`. Any coordinator that knows the secret
    /// derives the same id for the same grant. The record alone does not suffice to derive it.
    #[must_use]
    pub fn lease_id(&self, key: &Key, grant_nonce: Nonce) -> LeaseId {
        let mut mac = self.0.clone();
        mac.update(key.as_str().as_bytes());
        mac.update(&[0]);
        mac.update(&grant_nonce.0.to_be_bytes());
        let tag = mac.finalize().into_bytes();
        let mut id = [0; 16];
        id.copy_from_slice(&tag[..16]);
        LeaseId { bits: id, principal: None }
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

/// 128 secret bits that prove that a caller is the holder of one tenure, and the principal that shows them. The bits are
/// written as 32 hexadecimal digits.
#[derive(Clone, Copy, Eq)]
pub struct LeaseId {
    bits: [u8; 16],
    principal: Option<PrincipalDigest>,
}

impl LeaseId {
    /// This id, shown by `principal`.
    #[must_use]
    pub fn by(self, principal: Option<PrincipalDigest>) -> Self {
        Self { principal, ..self }
    }

    /// The principal that shows the id.
    #[must_use]
    pub fn principal(&self) -> Option<PrincipalDigest> {
        self.principal
    }

    /// The id as text. Only the holder may see it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.bits))
    }
}

/// Compares the bits, in constant time. [`Rules::proves`](crate::lease::Rules::proves) compares the principals.
impl PartialEq for LeaseId {
    fn eq(&self, other: &Self) -> bool {
        self.bits.iter().zip(other.bits).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
    }
}

/// Hashes the bytes that are compared.
impl Hash for LeaseId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl FromStr for LeaseId {
    type Err = NotALeaseId;
    fn from_str(text: &str) -> Result<Self, NotALeaseId> {
        let digits: &[u8; 32] = text.as_bytes().try_into().map_err(|_| NotALeaseId)?;
        let (mut id, mut seen) = ([0; 16], 0);
        for (byte, [high, low]) in id.iter_mut().zip(digits.as_chunks::<2>().0) {
            let (high, low) = (DIGITS[usize::from(*high)], DIGITS[usize::from(*low)]);
            seen |= high | low;
            *byte = high << 4 | low;
        }
        if seen & NONE != 0 {
            return Err(NotALeaseId);
        }
        Ok(Self { bits: id, principal: None })
    }
}

/// In the table, the mark of what is no hexadecimal digit.
const NONE: u8 = 0xf0;

/// The values of all digits, by their characters. Every heartbeat reads them, so there is no branch for each.
const DIGITS: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(…)")
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 32 hexadecimal digits")]
pub struct NotALeaseId;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_secret_key_and_grant_and_is_never_shown_by_debug() {
        let secret = ClusterSecret::new(&[7; 32]);
        let key = Key::new("a").unwrap();
        let id = secret.lease_id(&key, Nonce(1));
        assert_eq!(id, secret.lease_id(&key, Nonce(1)));
        assert_ne!(id, secret.lease_id(&key, Nonce(2)));
        assert_ne!(id, secret.lease_id(&Key::new("b").unwrap(), Nonce(1)));
        assert_ne!(id, ClusterSecret::new(&[8; 32]).lease_id(&key, Nonce(1)));
        assert_eq!(id.reveal().parse(), Ok(id));
        assert!(!format!("{id:?}").contains(&id.reveal()));
        assert_eq!(id.reveal().to_uppercase().parse(), Ok(id));
        assert_eq!("+1".parse::<LeaseId>(), Err(NotALeaseId));
        assert_eq!(format!("+{}", &id.reveal()[1..]).parse::<LeaseId>(), Err(NotALeaseId));
    }

    #[test]
    fn an_id_has_hexadecimal_digits_alone() {
        for at in 0..32 {
            for byte in 0..128_u8 {
                let mut text = vec![b'0'; 32];
                text[at] = byte;
                let text = String::from_utf8(text).unwrap();
                let id = text.parse::<LeaseId>().map(|id| id.reveal());
                let is_digit = byte.is_ascii_hexdigit();
                assert_eq!(id, is_digit.then(|| text.to_lowercase()).ok_or(NotALeaseId), "{text}");
            }
        }
    }
}
