//! `tenure access check`: judges the file, and lists its principals.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::file::{self, Settings};
use crate::{
    access::{self, Principal, Verb},
    cli::{
        Exit, Failure,
        format::Format,
        output::{Output, dash, shown, talk},
    },
};

const HEADING: [&str; 6] = ["PRINCIPAL", "CREDENTIALS", "OWNERS", "MAY", "LIMITS", "EXPIRES"];

/// Report all faults of the file (exit code 78), or what to look at and a table of the principals
#[derive(Clone, Debug, Args)]
pub(super) struct CheckArgs {
    /// File to check [default: auth.file of the settings, or /etc/tenure/access.toml]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Serialize)]
struct Checked<'a> {
    file: &'a Path,
    warnings: &'a [String],
    principals: &'a [Row],
}

/// A principal, without its credentials themselves.
#[derive(Serialize)]
struct Row {
    name: String,
    tokens: usize,
    certificates: Vec<String>,
    uids: Vec<u32>,
    jwt: Vec<Subject>,
    owners: Vec<String>,
    may: Vec<Right>,
    limit: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

/// The subjects of an issuer's JWTs.
#[derive(Serialize)]
struct Subject {
    issuer: String,
    sub: String,
}

#[derive(Serialize)]
struct Right {
    verb: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefixes: Option<Vec<String>>,
    /// Single keys, each with its permits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

impl CheckArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let file = self.settings.file(self.file.as_deref())?;
        let access = file::read(&file)?;
        let warnings = access.review();
        let rows: Vec<Row> = access.principals().iter().map(|one| Row::of(one)).collect();
        let whole = Checked { file: &file, warnings: &warnings, principals: &rows };
        output.list("principals", &whole, &rows, &HEADING, Row::cells)?;
        if output.format != Format::Json {
            warnings.iter().for_each(|warning| talk(&format!("warning: {}", shown(warning))));
        }
        Ok(Exit::Done)
    }
}

impl Row {
    fn of(principal: &Principal) -> Self {
        let has = Verb::ALL.into_iter().filter(|verb| principal.has(*verb));
        let right = |verb: Verb| {
            let keys = principal.keys(verb);
            let prefixes = || keys.prefixes().map(str::to_owned).collect();
            Right {
                verb: verb.as_str(),
                prefixes: verb.has_keys().then(prefixes),
                keys: keys.singles().map(str::to_owned).collect(),
            }
        };
        let limits = principal.limit().fields().into_iter();
        Self {
            name: principal.name.to_string(),
            tokens: principal.tokens().len(),
            certificates: principal.certificates().iter().map(ToString::to_string).collect(),
            uids: principal.uids().to_vec(),
            jwt: principal.subjects().iter().map(Subject::of).collect(),
            owners: principal.owners().iter().map(ToString::to_string).collect(),
            may: has.map(right).collect(),
            limit: limits
                .filter_map(|(name, value)| Some((name.to_owned(), value?.into())))
                .collect(),
            expires: principal.expires().map(|day| day.to_string()),
        }
    }

    fn cells(&self) -> Vec<String> {
        let tokens = match self.tokens {
            0 => None,
            1 => Some("a token".to_owned()),
            several => Some(format!("{several} tokens")),
        };
        let certificates = self.certificates.iter().map(|name| format!("cert {name}"));
        let uids = self.uids.iter().map(|uid| format!("uid {uid}"));
        let subjects = self.jwt.iter().map(|one| format!("jwt {} of {}", one.sub, one.issuer));
        let credentials = tokens.into_iter().chain(certificates).chain(uids).chain(subjects);
        let limits = self.limit.iter().map(|(name, value)| format!("{name} {value}"));
        let joined =
            |all: Vec<String>| if all.is_empty() { dash() } else { shown(&all.join(", ")) };
        vec![
            shown(&self.name),
            joined(credentials.collect()),
            joined(self.owners.clone()),
            joined(self.may.iter().map(Right::told).collect()),
            joined(limits.collect()),
            self.expires.clone().unwrap_or_else(dash),
        ]
    }
}

impl Subject {
    fn of(subject: &access::Subject) -> Self {
        Self { issuer: subject.issuer.to_string(), sub: subject.sub.to_string() }
    }
}

impl Right {
    fn told(&self) -> String {
        let told =
            |prefix: &String| if prefix.is_empty() { "*".to_owned() } else { format!("{prefix}*") };
        match &self.prefixes {
            Some(prefixes) => {
                let keys: Vec<_> =
                    prefixes.iter().map(told).chain(self.keys.iter().cloned()).collect();
                format!("{} {}", self.verb, keys.join(" "))
            }
            None => self.verb.to_owned(),
        }
    }
}
