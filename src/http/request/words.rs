//! Rewrites the JSON library's error messages in terms of JSON.

use std::fmt::Display;

/// Rewrites a message about a value in a body. Such a message ends with the value's place.
pub fn of_body(sentence: &str) -> String {
    let is_place =
        |place: &str| place.bytes().all(|b| b.is_ascii_digit() || b" column".contains(&b));
    match sentence.rsplit_once(" at line ").filter(|(_, place)| is_place(place)) {
        Some((sentence, place)) => format!("{}, at line {place}", of_value(sentence)),
        None => of_value(sentence),
    }
}

/// Rewrites a message about a value.
pub fn of_value(sentence: &str) -> String {
    let sentence = match sentence.strip_prefix("unknown variant ") {
        Some(rest) => format!("unknown word {rest}"),
        None => sentence.to_owned(),
    };
    match sentence.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{}, expected {}", value(found), wanted(expected)),
        None => sentence,
    }
}

/// The name in ``missing field `key` ``.
pub fn quoted(detail: &str) -> Option<String> {
    let (_, rest) = detail.split_once("field `")?;
    Some(rest.split_once('`')?.0.to_owned())
}

fn value(found: &str) -> String {
    let Some(what) = found.strip_prefix("invalid type: ") else { return found.to_owned() };
    let what = match what {
        "map" => "an object",
        "sequence" => "a list",
        "unit value" | "Option value" => "null",
        other => other,
    };
    format!("invalid type: {}", what.replacen("floating point", "number", 1))
}

fn wanted(expected: &str) -> String {
    let whole = |max: &dyn Display| format!("a whole number from 0 to {max}");
    match expected {
        "u8" => whole(&u8::MAX),
        "u16" => whole(&u16::MAX),
        "u32" => whole(&u32::MAX),
        "u64" | "usize" => whole(&u64::MAX),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "variant identifier" => "a string".to_owned(),
        other if other.starts_with("struct ") || other.contains("tagged enum") => {
            "an object".to_owned()
        }
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_this_program_are_not_quoted() {
        for (said, meant) in [
            (
                "invalid value: integer `-1`, expected u32 at line 1 column 20",
                "invalid value: integer `-1`, expected a whole number from 0 to 4294967295, at line 1 column 20",
            ),
            (
                "invalid type: sequence, expected struct LeaseRef",
                "invalid type: a list, expected an object",
            ),
            (
                "unknown variant `u8`, expected one of `a`, `b`",
                "unknown word `u8`, expected one of `a`, `b`",
            ),
            (
                "unknown field `x at line u8`, there are no fields",
                "unknown field `x at line u8`, there are no fields",
            ),
            (
                "invalid type: map, expected a boolean",
                "invalid type: an object, expected true or false",
            ),
            ("missing field `key` at line 1 column 2", "missing field `key`, at line 1 column 2"),
        ] {
            assert_eq!(of_body(said), meant);
        }
    }
}
