//! Why a holder gives a lease back, as it tells servers.

use serde_json::Value;

use crate::api::limits::MAX_REASON_BYTES;

/// The end of a reason that is too long.
const MORE: &str = "…";

/// A reason as servers accept it: in one line, and not too long.
pub(super) fn said(reason: &str) -> Option<String> {
    let parts = reason.split(char::is_control).filter(|part| !part.is_empty());
    let mut line = parts.collect::<Vec<_>>().join(" ");
    if line.len() > MAX_REASON_BYTES {
        line.truncate(line.floor_char_boundary(MAX_REASON_BYTES - MORE.len()));
        line += MORE;
    }
    Some(line).filter(|line| !line.is_empty())
}

/// Takes the reason out of a body. Returns whether it had one.
pub(super) fn leave_out(body: &mut Value) -> bool {
    body.as_object_mut().is_some_and(|body| body.remove("reason").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_is_one_line_of_256_bytes_at_most() {
        assert_eq!(said("exit code 9").as_deref(), Some("exit code 9"));
        assert_eq!(
            said("first\r\nsecond\t\u{1b}[31mthird\n").as_deref(),
            Some("first second [31mthird")
        );
        assert_eq!(said("\n"), None);
        assert_eq!(said(""), None);
        let exact = "x".repeat(MAX_REASON_BYTES);
        assert_eq!(said(&exact), Some(exact.clone()));
        let long = said(&"ä".repeat(200)).unwrap();
        assert!(
            long.ends_with("ä…") && (MAX_REASON_BYTES - 2..=MAX_REASON_BYTES).contains(&long.len())
        );
    }

    #[test]
    fn a_body_loses_its_reason_once() {
        let mut body = json!({ "key": "a", "reason": "exit code 9" });
        assert!(leave_out(&mut body));
        assert!(!leave_out(&mut body));
        assert_eq!(body, json!({ "key": "a" }));
    }
}
