//! The header `traceparent` of W3C Trace Context.

use std::fmt;

/// The length of the header in version 00. Later versions may only add to it.
const LENGTH: usize = 55;
/// The version that no header may have.
const NO_VERSION: u128 = 0xff;
/// The flag of a trace that is recorded.
const SAMPLED: u128 = 1;

/// The span that a call is part of, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Names the trace; never 0.
    pub trace: u128,
    /// Names the span in the trace; never 0.
    pub span: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl Parent {
    /// Reads the header. `None`: it is malformed, and counts as absent.
    #[must_use]
    pub fn read(header: &str) -> Option<Self> {
        let (head, rest) = header.split_at_checked(LENGTH)?;
        let mut parts = head.split('-');
        let version = digits(parts.next()?, 2)?;
        let trace = digits(parts.next()?, 32)?;
        let span = u64::try_from(digits(parts.next()?, 16)?).ok()?;
        let flags = digits(parts.next()?, 2)?;
        let whole = match version {
            NO_VERSION => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let sampled = flags & SAMPLED != 0;
        (whole && trace != 0 && span != 0).then_some(Self { trace, span, sampled })
    }
}

/// A number of so many hexadecimal digits, in lower case.
fn digits(text: &str, count: usize) -> Option<u128> {
    let valid = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (valid && text.len() == count).then(|| u128::from_str_radix(text, 16).ok())?
}

/// The header.
impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_header_of_the_standard_is_read_and_written() {
        let parent = Parent::read(HEADER).expect("a parent");
        assert_eq!(parent.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((parent.span, parent.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(parent.to_string(), HEADER);
        let unsampled = HEADER.replace("-01", "-00");
        assert!(!Parent::read(&unsampled).expect("a parent").sampled);
        let random = HEADER.replace("-01", "-03");
        assert!(Parent::read(&random).expect("a parent").sampled);
    }

    #[test]
    fn a_later_version_may_say_more_and_version_00_may_not() {
        let later = HEADER.replacen("00", "cc", 1);
        assert!(Parent::read(&later).is_some());
        assert!(Parent::read(&format!("{later}-what-comes")).is_some());
        assert_eq!(Parent::read(&format!("{later}x")), None);
        assert_eq!(Parent::read(&format!("{HEADER}-more")), None);
    }

    #[test]
    fn whatever_is_malformed_counts_as_absent() {
        let wrong = [
            String::new(),
            "00".into(),
            "é".repeat(40),
            HEADER.to_uppercase(),
            HEADER.replacen("00", "ff", 1),
            HEADER.replace('-', "_"),
            HEADER.replace("4bf9", "+bf9"),
            HEADER.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            HEADER.replace("00f067aa0ba902b7", &"0".repeat(16)),
            HEADER
                .replace("4bf92f3577b34da6a3ce929d0e0e4736-", "4bf92f3577b34da6a3ce929d0e0e473-6"),
            HEADER.replace("-01", "-0g"),
            format!(" {HEADER}"),
            HEADER[..54].to_owned(),
        ];
        for header in wrong {
            assert_eq!(Parent::read(&header), None, "{header:?}");
        }
    }
}
