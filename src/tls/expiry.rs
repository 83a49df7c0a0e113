//! The time in which a certificate is valid.

use der::{
    AnyRef, Decode as _, SliceReader, Tag, Tagged as _,
    asn1::{GeneralizedTime, UtcTime},
};

/// When a certificate ends to be valid, in seconds since 1970; `None` if it is malformed.
pub(super) fn not_after(certificate: &[u8]) -> Option<u64> {
    validity(certificate).map(|(_, end)| end)
}

/// The first and the last second in which a certificate is valid, since 1970; `None` if it is malformed.
pub(super) fn validity(certificate: &[u8]) -> Option<(u64, u64)> {
    read(certificate).ok()
}

fn read(certificate: &[u8]) -> der::Result<(u64, u64)> {
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
    let (begin, end) = (AnyRef::decode(&mut times)?, AnyRef::decode(&mut times)?);
    Ok((seconds(begin)?, seconds(end)?))
}

fn seconds(time: AnyRef<'_>) -> der::Result<u64> {
    let since_1970 = match time.tag() {
        Tag::UtcTime => time.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => time.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(since_1970.as_secs())
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
            validity(&der).map(|(begin, _)| begin)
        };
        assert!(begin(far).is_some_and(|begin| begin < 4_949_223_124), "{:?}", begin(far));
        assert_eq!(not_after(b"0123456789"), None);
        assert_eq!(not_after(&[]), None);
    }
}
