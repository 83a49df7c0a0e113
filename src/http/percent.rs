//! Percent-encoding in paths and queries.

/// Decodes percent-encoding once: a decoded `%` begins no further code. Fails at a `%` without two digits.
pub fn percent_decode(raw: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(decoded) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) else {
            return Err("holds a % that is not followed by two hexadecimal digits");
        };
        bytes.push(decoded);
        rest = &after[2..];
    }
    Ok(bytes)
}
