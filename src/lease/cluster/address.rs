//! Addresses at which a node is reached.

/// Whether the address leads back to the machine that uses it. Only a plain `scheme://host:port/path` can be such an
/// address.
#[must_use]
pub fn is_loopback(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // The user part may look like a host.
    let authority = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').map_or(("", ""), |(host, port)| (host, port)),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.is_empty() || port.strip_prefix(':').is_some_and(number);
    let part = |part: &str| number(part) && part.parse::<u8>().is_ok();
    let v4 = host.starts_with("127.") && host.split('.').count() == 4 && host.split('.').all(part);
    port && (v4 || host == "::1" || host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_begins_like_a_loopback_address_is_none() {
        for url in
            ["http://127.0.0.1", "http://127.8.9.1:80/x", "http://LOCALHOST", "http://[::1]:1"]
        {
            assert!(is_loopback(url), "{url}");
        }
        let others = [
            "http://127.0.0.1.example",
            "http://localhost.example",
            "http://localhost.",
            "http://127.0.0.1:80@example",
            "nats://localhost:secret@10.0.0.7:4222",
            "nats://[::1]@10.0.0.7:4222",
            "http://[::1]example",
            "http://127.0.0.1:80example",
            "http://127.0.0.1.1",
            "http://[::2]",
            "http://[::1",
            "",
        ];
        for url in others {
            assert!(!is_loopback(url), "{url}");
        }
        assert!(is_loopback("nats://10.0.0.7:secret@localhost:4222"), "the user is no host");
    }
}
