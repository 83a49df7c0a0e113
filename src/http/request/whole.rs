//! Whole numbers that are written as `60000.0` or `6e4`. Some languages write JSON in this way.

/// Up to this number, each whole number is exact as a floating-point number.
const MOST: f64 = 9_007_199_254_740_992.0;

/// The same JSON text with these numbers written as digits; `None` if it has none.
pub fn in_digits(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest, mut in_string, mut found) = (Vec::new(), text, false, false);
    while let [first, ..] = rest {
        let length = match first {
            b'\\' if in_string => 2.min(rest.len()),
            b'"' => {
                in_string = !in_string;
                1
            }
            b'-' | b'0'..=b'9' if !in_string => {
                let is_of_number = |b: &u8| b"+-.eE0123456789".contains(b);
                rest.iter().position(|b| !is_of_number(b)).unwrap_or(rest.len())
            }
            _ => 1,
        };
        let (token, after) = rest.split_at(length);
        match whole(token) {
            Some(number) if length > 1 && !in_string => {
                out.extend_from_slice(number.to_string().as_bytes());
                found = true;
            }
            _ => out.extend_from_slice(token),
        }
        rest = after;
    }
    found.then_some(out)
}

/// The whole number that is written with a point or an exponent.
fn whole(token: &[u8]) -> Option<u64> {
    if !token.iter().any(|b| b".eE".contains(b)) {
        return None;
    }
    let number: f64 = serde_json::from_slice(token).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and in range"
    )]
    let whole = || number as u64;
    ((0.0..=MOST).contains(&number) && number.fract() == 0.0).then(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> Option<String> {
        in_digits(text.as_bytes()).map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn whole_numbers_are_written_in_digits_and_nothing_else_changes() {
        for (text, after) in [
            (r#"{"ttl_ms":60000.0}"#, r#"{"ttl_ms":60000}"#),
            (r#"{"ttl_ms": 6e4 }"#, r#"{"ttl_ms": 60000 }"#),
            (r#"[6E+4,0.0,1.5,"1.0 \" 2.0"]"#, r#"[60000,0,1.5,"1.0 \" 2.0"]"#),
            (r#"[9007199254740992.0,"\\",2.0]"#, r#"[9007199254740992,"\\",2]"#),
        ] {
            assert_eq!(rewritten(text).as_deref(), Some(after));
        }
        for text in [
            r#"{"ttl_ms":60000,"n":1.5}"#,
            r#"{"n":-1.0,"m":1e99,"o":18446744073709551616.0}"#,
            r#"[01.0,1.,2.0.0]"#,
            r#"{"key":"6e4","s":"1.0"#,
            "",
        ] {
            assert_eq!(rewritten(text), None, "{text}");
        }
    }
}
