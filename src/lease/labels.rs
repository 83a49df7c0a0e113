//! Labels of the members of pools.

use std::collections::BTreeMap;

/// The labels of a member: a value for each name.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// The label that says where a member runs.
pub const ZONE: &str = "zone";
/// The most labels of a member.
pub const MAX_LABELS: usize = 16;
/// The longest name of a label, in bytes.
pub const MAX_LABEL_NAME_BYTES: usize = 64;
/// The longest value of a label, in bytes.
pub const MAX_LABEL_VALUE_BYTES: usize = 128;
/// The most bytes that the names and values of a member's labels may have together: they share the record of its session
/// with loads.
pub const MAX_LABELS_BYTES: usize = 1024;

/// The characters of names and values, as said to callers.
const CHARACTERS: &str = "a-z, A-Z, 0-9, - _ . / and :";

fn is_plain(text: &str, most: usize) -> bool {
    let is_of = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    (1..=most).contains(&text.len()) && text.chars().all(is_of)
}

/// What is wrong with the name of a label.
///
/// # Errors
/// The rule that the name breaks.
pub fn check_label_name(name: &str) -> Result<(), String> {
    let most = MAX_LABEL_NAME_BYTES;
    let refused = || format!("the name {name:?} must be 1 to {most} of {CHARACTERS}");
    is_plain(name, most).then_some(()).ok_or_else(refused)
}

/// What is wrong with the value of a label.
///
/// # Errors
/// The rule that the value breaks.
pub fn check_label_value(value: &str) -> Result<(), String> {
    let most = MAX_LABEL_VALUE_BYTES;
    let refused = || format!("the value {value:?} must be 1 to {most} of {CHARACTERS}");
    is_plain(value, most).then_some(()).ok_or_else(refused)
}

/// Makes labels of names and values.
///
/// # Errors
/// The bound that they exceed, or the rule that one of them breaks.
pub fn labels_of<'a>(
    pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
) -> Result<Labels, String> {
    let count = pairs.len();
    if count > MAX_LABELS {
        return Err(format!("has {count} labels; at most {MAX_LABELS} are allowed"));
    }
    let checked = pairs.map(|(name, value)| {
        let checked = check_label_name(name).and_then(|()| check_label_value(value));
        checked.map_err(|fault| format!("has a fault: {fault}"))?;
        Ok((name.into(), value.into()))
    });
    let labels = checked.collect::<Result<Labels, String>>()?;
    let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_LABELS_BYTES {
        return Err(format!("needs {bytes} bytes; at most {MAX_LABELS_BYTES} are allowed"));
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(pairs: &[(String, String)]) -> String {
        let pairs: Vec<(&str, &str)> =
            pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
        labels_of(pairs.into_iter()).err().unwrap_or_default()
    }

    #[test]
    fn each_bound_of_labels_is_kept() {
        let many = |count: usize, bytes: usize| -> Vec<(String, String)> {
            (0..count).map(|at| (format!("{at:02}"), "v".repeat(bytes))).collect()
        };
        assert_eq!(fault(&many(16, 62)), "");
        assert!(fault(&many(17, 1)).contains("at most 16"));
        assert!(fault(&many(16, 63)).contains("1040 bytes; at most 1024"));
        let one = |name: &str, value: &str| fault(&[(name.into(), value.into())]);
        assert_eq!(one(&"n".repeat(64), &"v".repeat(128)), "");
        for (name, value) in [("", "v"), ("a=b", "v"), ("a b", "v"), ("ä", "v")] {
            assert!(one(name, value).contains("the name"), "{name:?}");
        }
        for value in ["", "a b", "a,b", "\n", "ä"] {
            assert!(one("n", value).contains("the value"), "{value:?}");
        }
        assert!(one(&"n".repeat(65), "v").contains("the name"));
        assert!(one("n", &"v".repeat(129)).contains("the value"));
    }
}
