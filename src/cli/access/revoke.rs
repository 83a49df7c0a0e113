//! `tenure access revoke`, `unrevoke` and `list`: the revocation list, which all nodes follow.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::{
    access::{Token, TokenDigest},
    api::limits::ORDER_MS,
    cli::{
        Context, Exit, Failure, args,
        output::{dash, shown, talk},
    },
    client::{AccessAction, AccessOrderBody, RevocationEntry, Revocations},
    tls,
};

const HEADING: [&str; 6] = ["KIND", "REVOKED", "SINCE", "UNTIL", "BY", "REASON"];

/// The principal or the credential.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// Name of a principal, whatever it shows
    name: Option<String>,
    /// Digest of a token or of a JWT: sha256: and 64 hexadecimal digits, as the access file has it
    #[arg(long, value_name = "DIGEST")]
    token_digest: Option<String>,
    /// File with the token or the JWT; only its digest is sent
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    leaked_token: Option<PathBuf>,
    /// Exact URI or DNS name in client certificates, or sha256: and the digest of the signed part of one certificate
    #[arg(long, value_name = "NAME")]
    certificate: Option<String>,
    /// PEM file with the client certificate; only its digest is sent
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    certificate_file: Option<PathBuf>,
}

/// Revoke a principal, a token or a certificate at all nodes, without a signal to any of them.
///
/// The order is stored with its author and its reason. Within a second, calls get 401 at every node that the store
/// reaches, whatever the access files say, and waits and streams end. Leases are not ended: heartbeats are refused, so they
/// end with their ttl. The entry stays until `tenure access unrevoke`, or until its own end (`--for`). For good, take the
/// principal or its credential out of the access file as well. This needs the right `access`.
#[derive(Clone, Debug, Args)]
pub(super) struct RevokeArgs {
    #[command(flatten)]
    target: Target,
    /// Reason, stored with the order
    #[arg(long)]
    reason: String,
    /// Time after which the entry ends by itself, such as 12h [default: never]
    #[arg(long = "for", value_name = "TIME", value_parser = lasting)]
    lasts: Option<Duration>,
}

/// Let a principal, a token or a certificate be used again that was revoked.
#[derive(Clone, Debug, Args)]
pub(super) struct UnrevokeArgs {
    #[command(flatten)]
    target: Target,
    /// Reason, recorded in the log and in the audit log
    #[arg(long)]
    reason: String,
}

/// List the principals and credentials that are revoked.
#[derive(Clone, Debug, Args)]
pub(super) struct ListArgs {}

/// Parses how long an entry lasts: what a coordinator accepts.
fn lasting(text: &str) -> Result<Duration, String> {
    let span = args::duration(text)?;
    let is_accepted = u64::try_from(span.as_millis()).is_ok_and(|ms| ORDER_MS.contains(&ms));
    if is_accepted { Ok(span) } else { Err("must be from 1s to 30d".to_owned()) }
}

impl Target {
    fn order(self, action: AccessAction, reason: String) -> Result<AccessOrderBody, Failure> {
        let Self { name, token_digest, leaked_token, certificate, certificate_file } = self;
        let unreadable =
            |file: &PathBuf, why: String| Failure::Usage(format!("{}: {why}", file.display()));
        if token_digest.as_deref().is_some_and(|text| text.parse::<Token>().is_ok()) {
            let problem =
                "--token-digest is a token: name the file that has it with --leaked-token";
            return Err(Failure::Usage(problem.to_owned()));
        }
        let of_file = |file: PathBuf| {
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| unreadable(&file, error.to_string()))?;
            let digest = TokenDigest::of_credential(text.trim());
            let digest = digest
                .ok_or_else(|| unreadable(&file, "has no token and no JWT alone".to_owned()))?;
            Ok::<_, Failure>(digest.to_string())
        };
        let of_pem = |file: PathBuf| {
            let read = CertificateDer::from_pem_file(&file);
            let read = read.map_err(|error| unreadable(&file, error.to_string()))?;
            if tls::is_authority(&read) {
                let why = "is the certificate of an authority, which no client shows: name that of the client";
                return Err(unreadable(&file, why.to_owned()));
            }
            let signed = tls::signed_part(&read);
            let signed = signed
                .ok_or_else(|| unreadable(&file, "has a malformed certificate".to_owned()))?;
            Ok::<_, Failure>(TokenDigest::of_bytes(signed).to_string())
        };
        Ok(AccessOrderBody {
            action,
            principal: name,
            token: leaked_token.map(of_file).transpose()?.or(token_digest),
            certificate: certificate_file.map(of_pem).transpose()?.or(certificate),
            for_ms: None,
            reason,
        })
    }
}

impl RevokeArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let order = self.target.order(AccessAction::Revoke, self.reason)?;
        let for_ms = self.lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        show(context, &AccessOrderBody { for_ms, ..order }).await
    }
}

impl UnrevokeArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        show(context, &self.target.order(AccessAction::Unrevoke, self.reason)?).await
    }
}

impl ListArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let all = context.client.revocations().await?;
        context.output.list("revocations", &all, &all.revoked, &HEADING, row)?;
        Ok(Exit::Done)
    }
}

async fn show(context: &Context, order: &AccessOrderBody) -> Result<Exit, Failure> {
    let all = context.client.order_access(order).await?;
    context.output.list("revocations", &all, &all.revoked, &HEADING, row)?;
    notes(order, &all).iter().for_each(|line| talk(line));
    Ok(Exit::Done)
}

/// What the table does not show of the order.
fn notes(order: &AccessOrderBody, all: &Revocations) -> Vec<String> {
    let mut notes = Vec::new();
    let revokes = order.action == AccessAction::Revoke;
    if all.changed == Some(false) {
        let nothing = if revokes {
            "it is revoked already, for as long or longer"
        } else {
            "it was not revoked"
        };
        notes.push(format!("nothing changed: {nothing}"));
    }
    if let Some(name) = order.principal.as_deref().filter(|_| revokes && all.in_file == Some(false))
    {
        notes.push(format!(
            "the access file of the coordinator has no principal {name:?}: the order holds as soon as it has one"
        ));
    }
    notes.extend(unconfirmed(all));
    notes
}

/// The nodes that did not confirm the order.
fn unconfirmed(all: &Revocations) -> Option<String> {
    let mut nodes = String::new();
    for url in &all.unconfirmed {
        let _ = write!(nodes, " {}", shown(url));
    }
    (!nodes.is_empty()).then(|| {
        format!(
            "not confirmed by{nodes}: the order is stored, and holds there once the store reaches the node; a node that the \
             store does not reach promises nothing after node.ttl"
        )
    })
}

fn row(entry: &RevocationEntry) -> Vec<String> {
    let RevocationEntry { principal, token, certificate, by, reason, at, until } = entry;
    let named = [("principal", principal), ("token", token), ("certificate", certificate)];
    let named = named.iter().find_map(|(kind, name)| Some((*kind, name.as_deref()?)));
    let (kind, name) = named.unwrap_or(("unknown", "-"));
    let until = until.as_deref().map_or_else(dash, shown);
    vec![kind.to_owned(), shown(name), shown(at), until, shown(by), shown(reason)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_and_nodes_that_did_not_confirm_are_shown() {
        let entry = RevocationEntry {
            token: Some("sha256:00".into()),
            by: "admin at 127.0.0.1".into(),
            reason: "leaked\u{202e}".into(),
            at: "2027-01-01T00:00:00Z".into(),
            ..RevocationEntry::default()
        };
        let cells = row(&entry);
        assert_eq!((&*cells[0], &*cells[1], &*cells[3]), ("token", "sha256:00", "-"));
        assert!(!cells[5].contains('\u{202e}'), "{cells:?}");
        let mut all = Revocations::default();
        assert_eq!(unconfirmed(&all), None);
        all.unconfirmed = vec!["http://b".into()];
        assert!(unconfirmed(&all).is_some_and(|line| line.contains("http://b")));
    }

    #[test]
    fn an_order_without_effect_says_so() {
        let order = |action| AccessOrderBody {
            action,
            principal: Some("x".into()),
            token: None,
            certificate: None,
            for_ms: None,
            reason: "r".into(),
        };
        let (revoke, unrevoke) = (order(AccessAction::Revoke), order(AccessAction::Unrevoke));
        let said = |changed, in_file| Revocations {
            changed: Some(changed),
            in_file: Some(in_file),
            ..Revocations::default()
        };
        assert_eq!(notes(&revoke, &said(true, true)), [""; 0]);
        assert_eq!(notes(&unrevoke, &said(true, false)), [""; 0]);
        assert_eq!(
            notes(&revoke, &said(false, true)),
            ["nothing changed: it is revoked already, for as long or longer"]
        );
        assert_eq!(notes(&unrevoke, &said(false, true)), ["nothing changed: it was not revoked"]);
        let unknown = notes(&revoke, &said(true, false));
        assert!(unknown.len() == 1 && unknown[0].contains("no principal \"x\""), "{unknown:?}");
    }
}
