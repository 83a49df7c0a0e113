//! What a coordinator must ask for before it listens where others can reach it.

use super::tree::Settings;

/// Why the coordinator may not listen there: the setting, and what is wrong.
pub(super) fn fault(settings: &Settings) -> Option<(&'static str, String)> {
    let server = &settings.server;
    if server.listen.ip().is_loopback() {
        return None;
    }
    let has_accounts = !settings.auth.file.as_os_str().is_empty();
    if has_accounts && (server.tls_files().is_some() || server.accept_plaintext)
        || !has_accounts && server.accept_no_auth
    {
        return None;
    }
    let problem = if has_accounts {
        "is not a loopback address, and tokens would cross the network in plain text. Set server.tls_cert and \
         server.tls_key, or server.accept_plaintext = true if a proxy in front of it ends TLS"
    } else {
        "is not a loopback address, and callers are not authenticated: whoever reaches the port owns every lease. There are \
         three ways out: \"tenure access init\" writes an access file for auth.file (with TLS by server.tls_cert, or \
         behind a proxy that ends TLS with server.accept_plaintext = true); or listen on 127.0.0.1; or restrict who can \
         reach the port (a firewall, a private network) and set server.accept_no_auth = true"
    };
    Some(("server.listen", problem.to_owned()))
}

impl Settings {
    /// Whether whoever reaches the port from elsewhere may do everything.
    #[must_use]
    pub fn is_open_door(&self) -> bool {
        !self.server.listen.ip().is_loopback() && self.auth.file.as_os_str().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fine(change: impl FnOnce(&mut Settings)) -> bool {
        let mut settings = Settings::default();
        settings.server.listen = ([0, 0, 0, 0], 7373).into();
        change(&mut settings);
        fault(&settings).is_none()
    }

    #[test]
    fn what_listens_beyond_loopback_asks_who_calls_and_over_tls_unless_told_otherwise() {
        assert!(fault(&Settings::default()).is_none(), "loopback");
        assert!(!is_fine(|_| {}));
        assert!(is_fine(|it| it.server.accept_no_auth = true));
        assert!(!is_fine(|it| it.server.accept_plaintext = true));
        let accounts = |it: &mut Settings| it.auth.file = "access.toml".into();
        assert!(!is_fine(accounts));
        assert!(!is_fine(|it| (accounts(it), it.server.accept_no_auth = true).1));
        assert!(is_fine(|it| (accounts(it), it.server.accept_plaintext = true).1));
        assert!(is_fine(|it| {
            accounts(it);
            it.server.tls_cert = "cert.pem".into();
            it.server.tls_key = "key.pem".into();
        }));
    }
}
