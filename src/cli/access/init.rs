//! `tenure access init`: writes a file with an administrator.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::file::{self, Settings};
use crate::{
    access::{Access, Token},
    cli::{
        Exit, Failure,
        output::{Output, talk},
        private_file,
        token::refuse_if_others_read_stdout,
    },
    clock::SystemEntropy,
};

const ADMIN: &str = "admin";

/// Write a file with a principal `admin`, and print its token, which is not stored anywhere else.
#[derive(Clone, Debug, Args)]
pub(super) struct InitArgs {
    /// File to create, readable only by you [default: auth.file of the settings, or /etc/tenure/access.toml]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Serialize)]
struct Written<'a> {
    file: &'a Path,
    principal: &'a str,
    token: &'a str,
}

impl InitArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let file = self.settings.file(self.file.as_deref())?;
        refuse_if_others_read_stdout()?;
        let token = Token::draw(&SystemEntropy::new());
        let content = content(&token);
        Access::parse(&file, &content, file::now_ms())?;
        private_file::write(&file, &content)?;
        if output.format.is_json() {
            output.json(&Written { file: &file, principal: ADMIN, token: token.reveal() })?;
        } else {
            output.text(&format!("{}\n", token.reveal()))?;
        }
        let path = std::path::absolute(&file).unwrap_or(file);
        talk(&format!(
            "wrote {path}. The token of the principal {ADMIN} is printed above, and stored nowhere: keep it in a file \
             that only you may read, for --token-file.\nNext:\n  1. let the server's user read the file (chown), \
             which nobody else needs to;\n  2. set auth.file = {path:?} in the server's settings, and restart it;\n  \
             3. add a principal for each program with \"tenure token new\", and judge the file with \"tenure access \
             check\".",
            path = path.display()
        ));
        Ok(Exit::Done)
    }
}

fn content(token: &Token) -> String {
    format!(
        r#"# Who may call this coordinator, and what each may do (docs/access.md).
# The coordinator follows this file: a change takes effect within seconds. All nodes of a store need the same file.
# "tenure access check" reports its faults; "tenure access can NAME VERB KEY" explains a right.

# An administrator: sees all, revokes, drains, pins and forgets, and revokes principals. It holds no leases.
[[principal]]
name = "{ADMIN}"
token = ["{digest}"]
may = [
  {{ verb = ["admin", "break", "read", "check"], prefix = "" }},
  {{ verb = ["observe", "access"] }},
]

# A program that works under leases. "tenure token new" prints a token and the digest for this file.
#
# [[principal]]
# name = "shard-worker"
# token = ["sha256:…"]                          # two, while one replaces the other
# cert = ["spiffe://prod/ns/shards/sa/worker"]  # URI in its client certificate (a * after the third /), or DNS name (*.domain)
# uid = [1000]                                  # its user on this machine, on server.listen_uds
# owner = ["{{name}}", "shard-*"]                 # owners under whose names it calls; default: {{name}} and {{name}}/*
# may = [
#   {{ verb = ["hold", "read"], prefix = "shards/" }},
#   {{ verb = "probe" }},
# ]
# limit = {{ rate = 2000, held = 5000, sessions = 50, waits = 200, streams = 5, weight = 4, connections = 100, new_keys = 10000 }}
# expires = 2027-01-31                          # its last day, UTC
"#,
        digest = token.digest()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Verb;

    #[test]
    fn the_file_is_valid_and_its_token_is_the_administrators() {
        let token = Token::draw(&SystemEntropy::new());
        let access = Access::parse(Path::new("f"), &content(&token), 0).unwrap();
        let admin = access.by_token(token.reveal()).unwrap();
        for verb in [Verb::Admin, Verb::Break, Verb::Read, Verb::Check] {
            assert!(admin.may_all_of(verb, ""), "{verb}");
        }
        assert!(admin.has(Verb::Observe) && admin.has(Verb::Access));
        assert!(!admin.has(Verb::Hold) && !admin.has(Verb::Probe));
        assert!(admin.acts_as("admin") && access.review().is_empty());
        assert!(!content(&token).contains(token.reveal()));
    }

    #[test]
    fn its_example_is_valid_too() {
        let token = Token::draw(&SystemEntropy::new());
        let content = content(&token);
        let (_, example) = content.split_once("#\n").unwrap();
        let lines: Vec<_> = example.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let example = lines.join("\n").replace("sha256:…", &token.digest().to_string());
        let access = Access::parse(Path::new("f"), &example, 0).unwrap();
        let worker = access.by_name("shard-worker").unwrap();
        assert!(worker.may(Verb::Hold, "shards/1") && worker.acts_as("shard-7"));
        assert!(worker.limit().fields().iter().all(|(_, value)| value.is_some()));
        assert_eq!((worker.limit().waits, worker.uids()), (Some(200), &[1000][..]));
    }
}
