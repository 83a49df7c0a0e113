//! Files with headers of HTTP: one on each line, `name: value`.

use std::path::Path;

use ::http::{HeaderMap, HeaderName, HeaderValue};

/// Reads the headers of a file. The values are secrets, and no problem quotes them.
///
/// # Errors
/// What is wrong with the file.
pub fn read_headers(path: &Path) -> Result<HeaderMap, String> {
    let content =
        std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut headers = HeaderMap::new();
    for (at, line) in lines {
        let problem = || format!("has no header in line {}: write name: value", at + 1);
        let (name, value) = line.split_once(':').ok_or_else(problem)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| problem())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| problem())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    if headers.is_empty() { Err("has no header".to_owned()) } else { Ok(headers) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    #[test]
    fn each_line_is_a_header_and_no_problem_quotes_a_value() {
        let headers = file("Authorization: Bearer a:b\n\nx-scope-orgid:  tenant \n");
        let headers = read_headers(headers.path()).unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-scope-orgid"], "tenant");
        assert!(!format!("{headers:?}").contains("Bearer"));
        for (content, problem) in [
            ("", "has no header"),
            ("a: b\nsecret", "in line 2"),
            ("se cret: b", "in line 1"),
            (": secret", "in line 1"),
            ("a: secret\u{1}", "in line 1"),
        ] {
            let said = read_headers(file(content).path()).unwrap_err();
            assert!(said.contains(problem) && !said.contains("secret"), "{said}");
        }
        assert!(read_headers(Path::new("/no/such")).unwrap_err().contains("cannot be read"));
    }
}
