//! Files that are not in force as they are on disk, and certificates.

use super::{
    entry::{CRITICAL, WARNING, of_node},
    facts::Facts,
};
use crate::{
    api::Attention,
    clock::rfc3339,
    manager::ListTrouble,
    telemetry::{FileKind, NotInForce},
    tls::{Expiry, NamedCertificates},
};

/// What needs a person, of the files that this node reads.
pub fn attention(facts: &Facts) -> Vec<Attention> {
    let mut found: Vec<Attention> = facts.files.iter().map(|file| refused(facts, file)).collect();
    found.extend(restart(facts));
    found.extend(revocations(facts));
    found.extend(facts.certificates.iter().map(certificate));
    found
}

fn refused(facts: &Facts, file: &NotInForce) -> Attention {
    let (kind, name, help) = match file.kind {
        FileKind::Access => {
            let help = "correct the file: tenure access check; it takes effect within seconds";
            ("access-not-in-force", "the access file on disk is not in force", help)
        }
        FileKind::Tls => {
            let help = "replace the files; they take effect within seconds";
            ("tls-not-in-force", "the TLS files on disk are not in force", help)
        }
        FileKind::Settings => {
            let help = "correct the file: tenure config check; then send SIGHUP";
            ("settings-not-in-force", "the settings file on disk is not in force", help)
        }
    };
    let more = match file.faults {
        0 | 1 => String::new(),
        faults => format!(" (and {} more)", faults - 1),
    };
    let says = format!("{name}, so what it said before counts: {}{more}", file.reason);
    // A principal that was removed may still have its rights.
    let severity = if file.kind == FileKind::Access { CRITICAL } else { WARNING };
    let entry = Attention {
        help: Some(help.to_owned()),
        reason: Some(file.reason.clone()),
        count: Some(file.faults as u64),
        ..of_node(kind, severity, says)
    };
    facts.since_ms(file.since_ms, entry)
}

fn revocations(facts: &Facts) -> Option<Attention> {
    let (trouble, since_ms) = facts.list_trouble.as_ref()?;
    let entry = match trouble {
        ListTrouble::Unread(why) => {
            let says = "the revocation list cannot be read: what this node knew of it holds until the node stops";
            let help =
                "tenure store verify; revoke again what must be, or take it out of the access file";
            let entry = of_node("revocations-unread", CRITICAL, says.to_owned());
            Attention { help: Some(help.to_owned()), reason: Some(why.clone()), ..entry }
        }
        ListTrouble::WentBack => {
            let says = "the store lost changes of the revocation list: what this node knew of it holds until the node stops";
            let help = "tenure access list; the next order for the list (tenure access revoke) stores all of it";
            let entry = of_node("revocations-went-back", CRITICAL, says.to_owned());
            Attention { help: Some(help.to_owned()), ..entry }
        }
        ListTrouble::NearlyFull => {
            let says = "the revocation list has room for few more entries, and then takes no order";
            let help = "take the principals and credentials out of the access file, and end their entries: tenure access \
                        unrevoke";
            let entry = of_node("revocations-nearly-full", WARNING, says.to_owned());
            Attention { help: Some(help.to_owned()), ..entry }
        }
    };
    Some(facts.since_ms(*since_ms, entry))
}

fn restart(facts: &Facts) -> Option<Attention> {
    let keys = facts.restart.join(", ");
    let says = format!("these settings changed, and count after a restart of this node: {keys}");
    let entry = of_node("restart-needed", WARNING, says);
    let help = Some("restart the node, or undo the changes and send SIGHUP".to_owned());
    let count = Some(facts.restart.len() as u64);
    (!facts.restart.is_empty()).then_some(Attention { help, count, ..entry })
}

fn certificate((named, expiry): &(NamedCertificates, Expiry)) -> Attention {
    let NamedCertificates { setting, path, are_authorities, .. } = named;
    let at = |seconds: u64| rfc3339(seconds.saturating_mul(1000));
    let what = if *are_authorities { "an authority" } else { "a certificate" };
    let path = path.display();
    let (kind, severity, says) = match expiry {
        Expiry::Over(until) => {
            let says = format!("{what} in {path} ({setting}) expired at {}", at(*until));
            ("certificate-expired", CRITICAL, says)
        }
        Expiry::NotYet(from) => {
            let says = format!("{what} in {path} ({setting}) is valid only from {} on", at(*from));
            ("certificate-not-yet-valid", CRITICAL, says)
        }
        Expiry::Soon(until) => {
            let says = format!("{what} in {path} ({setting}) expires at {}", at(*until));
            ("certificate-expires", WARNING, says)
        }
    };
    let is_followed = setting.starts_with("server.");
    let help =
        if is_followed { "replace the file" } else { "replace the file, and restart the node" };
    Attention { help: Some(help.to_owned()), ..of_node(kind, severity, says) }
}
