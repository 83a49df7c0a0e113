//! When certificates are valid, and what to say of those that are not, or soon will not be.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use der::{
    AnyRef, Decode as _, Reader as _, SliceReader, Tag, TagNumber, Tagged as _,
    asn1::{GeneralizedTime, UtcTime},
};
use rustls::pki_types::CertificateDer;

use super::pem;

/// The tag of the extensions in the signed part of a certificate.
const EXTENSIONS: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber::N3 };
/// The object identifier 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

/// A certificate that ends within this many seconds is reported: two weeks.
const SOON: u64 = 14 * 24 * 3600;

/// When a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: u64,
    pub until: u64,
}

/// The certificates of a file that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificates {
    /// Such as `server.tls_cert`.
    pub setting: String,
    pub path: PathBuf,
    /// They are authorities, of which each is good by itself. Otherwise, they are a certificate and the authorities
    /// between it and a root, which are good together.
    pub are_authorities: bool,
    pub certificates: Vec<Validity>,
}

/// What is wrong with certificates, or soon will be. The times are in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// None that is needed is valid any more.
    Over(u64),
    /// None that is needed is valid yet.
    NotYet(u64),
    /// One ends soon.
    Soon(u64),
}

impl NamedCertificates {
    /// Reads the file.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(setting: &str, path: &Path, are_authorities: bool) -> Result<Self, String> {
        Self::of(setting, path, are_authorities, &pem::certificates(path)?)
    }

    /// These certificates.
    pub(super) fn of(
        setting: &str,
        path: &Path,
        are_authorities: bool,
        certificates: &[CertificateDer<'_>],
    ) -> Result<Self, String> {
        let all = certificates.iter().map(|certificate| validity(certificate));
        let certificates = all.collect::<Option<Vec<_>>>();
        let certificates = certificates.ok_or("has a malformed certificate")?;
        let setting = setting.to_owned();
        Ok(Self { setting, path: path.to_owned(), are_authorities, certificates })
    }

    /// When the first of those ends that are valid now, or that must all be valid.
    #[must_use]
    pub fn expires(&self, now: u64) -> u64 {
        let ends = || self.certificates.iter().map(|certificate| certificate.until);
        let valid = ends().filter(|until| !self.are_authorities || now < *until).min();
        valid.or_else(|| ends().max()).unwrap_or_default()
    }

    /// What is to be said of them at a time in seconds since 1970. Of several authorities, one that has ended is no
    /// longer needed: the others may be there to replace it.
    #[must_use]
    pub fn judge(&self, now: u64) -> Option<Expiry> {
        let begins = self.certificates.iter().map(|certificate| certificate.from);
        let from = if self.are_authorities { begins.min() } else { begins.max() };
        let until = self.expires(now);
        match from {
            _ if until <= now => Some(Expiry::Over(until)),
            Some(from) if now < from => Some(Expiry::NotYet(from)),
            _ if until - now < SOON => Some(Expiry::Soon(until)),
            _ => None,
        }
    }
}

/// The certificates in use.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<Vec<NamedCertificates>>);

impl Certificates {
    /// From now on, these are in use for their setting.
    pub fn put(&self, named: NamedCertificates) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.setting != named.setting);
        all.push(named);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<NamedCertificates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of which something is to be said at a time in seconds since 1970.
    #[must_use]
    pub fn judge(&self, now: u64) -> Vec<(NamedCertificates, Expiry)> {
        let judged = self.all().into_iter().map(|named| (named.judge(now), named));
        judged.filter_map(|(expiry, named)| Some((named, expiry?))).collect()
    }
}

/// The part of a certificate that its authority signed; `None` if it is malformed. Whoever has the certificate can change
/// the rest of it and keep it valid.
#[must_use]
pub fn signed_part(certificate: &[u8]) -> Option<&[u8]> {
    let outer = AnyRef::from_der(certificate).ok()?;
    SliceReader::new(outer.value()).ok()?.tlv_bytes().ok()
}

/// Whether a certificate is that of an authority, as its basic constraints say (RFC 5280, section 4.2.1.9).
#[must_use]
pub fn is_authority(certificate: &[u8]) -> bool {
    constrains_an_authority(certificate).unwrap_or(false)
}

fn constrains_an_authority(certificate: &[u8]) -> der::Result<bool> {
    let outer = AnyRef::from_der(certificate)?;
    let signed = AnyRef::decode(&mut SliceReader::new(outer.value())?)?;
    let mut fields = SliceReader::new(signed.value())?;
    while !fields.is_finished() {
        let field = AnyRef::decode(&mut fields)?;
        if field.tag() != EXTENSIONS {
            continue;
        }
        let list = AnyRef::from_der(field.value())?;
        let mut extensions = SliceReader::new(list.value())?;
        while !extensions.is_finished() {
            let extension = AnyRef::decode(&mut extensions)?;
            let mut parts = SliceReader::new(extension.value())?;
            if AnyRef::decode(&mut parts)?.value() != BASIC_CONSTRAINTS {
                continue;
            }
            let mut value = AnyRef::decode(&mut parts)?;
            if value.tag() == Tag::Boolean {
                // Whether the extension is critical.
                value = AnyRef::decode(&mut parts)?;
            }
            let constraints = AnyRef::from_der(value.value())?;
            let mut constraints = SliceReader::new(constraints.value())?;
            if constraints.is_finished() {
                return Ok(false);
            }
            let first = AnyRef::decode(&mut constraints)?;
            return Ok(first.tag() == Tag::Boolean && first.value() != [0]);
        }
    }
    Ok(false)
}

/// When a certificate ends to be valid, in seconds since 1970; `None` if it is malformed.
pub(super) fn not_after(certificate: &[u8]) -> Option<u64> {
    validity(certificate).map(|validity| validity.until)
}

/// When a certificate is valid; `None` if it is malformed.
pub(super) fn validity(certificate: &[u8]) -> Option<Validity> {
    read(certificate).ok()
}

fn read(certificate: &[u8]) -> der::Result<Validity> {
    let outer = AnyRef::from_der(certificate)?;
    let signed = AnyRef::decode(&mut SliceReader::new(outer.value())?)?;
    let mut fields = SliceReader::new(signed.value())?;
    // The version, which may be left out, then the serial number.
    if AnyRef::decode(&mut fields)?.tag() != Tag::Integer {
        AnyRef::decode(&mut fields)?;
    }
    let (_algorithm, _issuer) = (AnyRef::decode(&mut fields)?, AnyRef::decode(&mut fields)?);
    let validity = AnyRef::decode(&mut fields)?;
    let mut times = SliceReader::new(validity.value())?;
    let mut time = || {
        let time = AnyRef::decode(&mut times)?;
        let since_1970 = match time.tag() {
            Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
            _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
        };
        Ok::<_, der::Error>(since_1970.as_secs())
    };
    Ok(Validity { from: time()?, until: time()? })
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    use super::*;

    fn end(pem: &str) -> Option<u64> {
        not_after(&CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
    }

    #[test]
    fn the_end_is_read_in_both_forms_of_a_time() {
        // As `openssl x509 -enddate` says: in 2126, and in 2036.
        let far = include_str!("../../tests/certificates/named.pem");
        let near = include_str!("../../tests/certificates/unnamed.pem");
        assert_eq!((end(far), end(near)), (Some(4_949_223_124), Some(2_110_983_141)));
        // As `openssl x509 -startdate` says: in 2026, a hundred years before the end.
        let begin = |pem: &str| {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
            validity(&der).map(|validity| validity.from)
        };
        assert!(begin(far).is_some_and(|begin| begin < 4_949_223_124), "{:?}", begin(far));
        assert_eq!(not_after(b"0123456789"), None);
        assert_eq!(not_after(&[]), None);
    }

    #[test]
    fn an_authority_is_known_by_its_basic_constraints() {
        let of =
            |pem: &str| is_authority(&CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"));
        // As `openssl x509 -ext basicConstraints` says.
        assert!(of(include_str!("../../tests/certificates/named.pem")));
        assert!(!of(include_str!("../../tests/certificates/leaf.pem")));
        assert!(!is_authority(b"0123456789"));
    }

    #[test]
    fn the_signed_part_is_all_that_counts() {
        let far = include_str!("../../tests/certificates/named.pem");
        let der = CertificateDer::from_pem_slice(far.as_bytes()).expect("PEM").to_vec();
        let changed = |at: usize| {
            let mut other = der.clone();
            other[at] ^= 1;
            other
        };
        let signature = changed(der.len() - 1);
        assert_eq!(signed_part(&signature), signed_part(&der));
        assert_ne!(signed_part(&changed(40)), signed_part(&der));
        assert!(signed_part(&der).is_some_and(|part| part.len() < der.len()));
        assert_eq!(signed_part(b"0123456789"), None);
    }

    const DAY: u64 = 24 * 3600;

    fn named(are_authorities: bool, spans: &[(u64, u64)]) -> NamedCertificates {
        let certificates =
            spans.iter().map(|(from, until)| Validity { from: *from, until: *until });
        NamedCertificates {
            setting: "server.tls_cert".into(),
            path: "cert.pem".into(),
            are_authorities,
            certificates: certificates.collect(),
        }
    }

    #[test]
    fn a_chain_is_as_good_as_its_worst_certificate() {
        let chain = named(false, &[(100, 90 * DAY), (200, 50 * DAY)]);
        assert_eq!(chain.judge(150), Some(Expiry::NotYet(200)));
        assert_eq!(chain.judge(200), None);
        assert_eq!(chain.judge(36 * DAY), None);
        assert_eq!(chain.judge(36 * DAY + 1), Some(Expiry::Soon(50 * DAY)));
        assert_eq!(chain.judge(50 * DAY - 1), Some(Expiry::Soon(50 * DAY)));
        assert_eq!(chain.judge(50 * DAY), Some(Expiry::Over(50 * DAY)));
    }

    #[test]
    fn an_authority_that_another_one_replaced_is_not_missed() {
        let both = named(true, &[(100, 50 * DAY), (40 * DAY, 150 * DAY)]);
        assert_eq!(both.judge(99), Some(Expiry::NotYet(100)));
        assert_eq!(both.judge(100), None);
        assert_eq!(both.judge(49 * DAY), Some(Expiry::Soon(50 * DAY)), "some need it still");
        assert_eq!((both.judge(50 * DAY), both.expires(50 * DAY)), (None, 150 * DAY));
        assert_eq!(both.judge(150 * DAY), Some(Expiry::Over(150 * DAY)));
    }

    #[test]
    fn what_is_in_use_for_a_setting_is_replaced() {
        let all = Certificates::default();
        all.put(named(false, &[(0, DAY)]));
        all.put(named(false, &[(0, 90 * DAY)]));
        assert_eq!((all.all().len(), all.judge(DAY).len()), (1, 0));
        assert_eq!(all.judge(90 * DAY).len(), 1);
    }
}
