//! `tenure access can`: explains what a principal may do.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::file::{self, Settings};
use crate::{
    access::{Access, Principal, Verb},
    cli::{
        Exit, Failure,
        output::{Output, shown},
    },
};

/// Explain whether a principal may do something: exit code 0 if it may, 1 if not
#[derive(Clone, Debug, Args)]
pub(super) struct CanArgs {
    /// Name of the principal
    name: String,
    /// What it would do: hold, read, check, admin, break, probe, observe or access
    verb: Verb,
    /// Key that it would do this to; probe, observe and access have none
    key: Option<String>,
    /// Owner under whose name it would call
    #[arg(long)]
    owner: Option<String>,
    /// File to read [default: auth.file of the settings, or /etc/tenure/access.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Serialize)]
struct Verdict {
    allowed: bool,
    /// Which right allows it, or what is missing.
    why: String,
}

impl CanArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match (&self.key, self.verb.has_keys()) {
            (None, true) => {
                return Err(Failure::Usage(format!("{} is about a key: name one", self.verb)));
            }
            (Some(_), false) => {
                return Err(Failure::Usage(format!("{} is about no key: leave it out", self.verb)));
            }
            _ => {}
        }
        let file = self.settings.file(self.file.as_deref())?;
        let judged = self.judge(&file::read(&file)?, file::now_ms());
        let verdict = match judged {
            Ok(line) => Verdict { allowed: true, why: format!("{}:{line}", file.display()) },
            Err(why) => Verdict { allowed: false, why },
        };
        if output.format.is_json() {
            output.json(&verdict)?;
        } else {
            let answer = if verdict.allowed { "yes" } else { "no" };
            output.text(&format!("{answer}: {}\n", shown(&verdict.why)))?;
        }
        Ok(if verdict.allowed { Exit::Done } else { Exit::Other })
    }

    /// The line and the text of the right that allows it, or what is missing.
    fn judge(&self, access: &Access, now_ms: u64) -> Result<String, String> {
        let Self { name, verb, .. } = self;
        let Some(principal) = access.by_name(name) else {
            let known: Vec<&str> = access.principals().iter().map(|one| &*one.name).collect();
            return Err(format!("there is no principal {name:?}; there are {}", known.join(", ")));
        };
        if let (true, Some(day)) = (principal.expired(now_ms), principal.expires()) {
            return Err(format!("{name} expired: {day} was its last day"));
        }
        let key = self.key.as_deref().unwrap_or_default();
        let right = principal.rights().iter().find(|right| right.allows(*verb, key));
        let right = right.ok_or_else(|| missing(principal, *verb))?;
        let owner = self.owner.as_deref();
        if owner.is_some_and(|owner| !principal.acts_as(owner)) {
            let patterns: Vec<String> =
                principal.owners().iter().map(ToString::to_string).collect();
            return Err(format!("{name} calls only as these owners: {}", patterns.join(", ")));
        }
        let rest = match (verb, owner) {
            (Verb::Hold, None) => " (the owner was not judged: name one with --owner)",
            _ => "",
        };
        Ok(format!("{}: {right}{rest}", right.line))
    }
}

/// Which keys the principal may do this to instead.
fn missing(principal: &Principal, verb: Verb) -> String {
    let name = &principal.name;
    if !principal.has(verb) {
        return format!("{name} has no right with the verb {verb}");
    }
    let keys = principal.keys(verb);
    let list = |kind: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| format!("{kind} {}", names.join(", ")))
    };
    let under = list("keys that begin with", keys.prefixes().collect());
    let single = list("the keys", keys.singles().collect());
    let all: Vec<String> = under.into_iter().chain(single).collect();
    format!("{name} may {verb} only {}", all.join(", and "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const FILE: &str = r#"[[principal]]
name = "w"
uid = 1
owner = "w-*"
may = [
  { verb = "read", prefix = "a/" },
  { verb = ["hold", "read"], prefix = "b/" },
  { verb = "observe" },
  { verb = "check", key = "b/lock" },
]
[[principal]]
name = "old"
uid = 2
may = [{ verb = "read", prefix = "" }]
expires = 2020-01-01
"#;

    fn judge(
        name: &str,
        verb: Verb,
        key: Option<&str>,
        owner: Option<&str>,
    ) -> Result<String, String> {
        let access = Access::parse(Path::new("f"), FILE, 0).unwrap();
        let args = CanArgs {
            name: name.into(),
            verb,
            key: key.map(Into::into),
            owner: owner.map(Into::into),
            file: None,
            settings: Settings { config: None },
        };
        args.judge(&access, 2_000_000_000_000)
    }

    #[test]
    fn it_names_the_right_or_what_is_missing() {
        let hold = judge("w", Verb::Hold, Some("b/1"), Some("w-1")).unwrap();
        assert_eq!(hold, "7: { verb = [\"hold\", \"read\"], prefix = \"b/\" }");
        assert!(judge("w", Verb::Hold, Some("b/1"), None).unwrap().contains("--owner"));
        assert_eq!(judge("w", Verb::Observe, None, None).unwrap(), "8: { verb = \"observe\" }");
        let no = |verb, key, owner| judge("w", verb, key, owner).unwrap_err();
        assert_eq!(no(Verb::Hold, Some("a/1"), None), "w may hold only keys that begin with b/");
        assert_eq!(no(Verb::Read, Some("c"), None), "w may read only keys that begin with a/, b/");
        assert_eq!(no(Verb::Admin, Some("b/1"), None), "w has no right with the verb admin");
        let lock = judge("w", Verb::Check, Some("b/lock#2"), None).unwrap();
        assert_eq!(lock, "9: { verb = \"check\", key = \"b/lock\" }");
        assert_eq!(no(Verb::Check, Some("b/lock2"), None), "w may check only the keys b/lock");
        let other = no(Verb::Hold, Some("b/1"), Some("v"));
        assert_eq!(other, "w calls only as these owners: w-*");
        assert!(judge("old", Verb::Read, Some("x"), None).unwrap_err().contains("2020-01-01"));
        assert!(judge("x", Verb::Read, Some("x"), None).unwrap_err().contains("there are w, old"));
    }
}
