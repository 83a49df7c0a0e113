//! `tenure token`: draws tokens for callers.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    Exit, Failure,
    output::{Output, talk},
    private_file,
};
use crate::{access::Token, clock::SystemEntropy};

/// Draw a token, which proves to a server who calls.
#[derive(Clone, Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum TokenCommand {
    /// Print a new token, and the digest of it for the file of principals; no server is asked
    New(NewArgs),
}

#[derive(Clone, Debug, Args)]
struct NewArgs {
    /// File to create with the token, readable only by you; the digest is then printed alone [default: stdout]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print both as JSON, like --output json
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct NewToken<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    digest: String,
}

impl TokenArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let TokenCommand::New(args) = &self.command;
        args.run(output)
    }
}

impl NewArgs {
    fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let token = Token::draw(&SystemEntropy::new());
        let digest = token.digest().to_string();
        match &self.file {
            Some(path) => private_file::write(path, &format!("{}\n", token.reveal()))?,
            None => refuse_if_others_read_stdout()?,
        }
        let shown = self.file.is_none().then(|| token.reveal());
        let line = format!("token = [\"{digest}\"]");
        match (output.format.is_json(), shown) {
            (false, _) if self.json => {
                let text = serde_json::to_string(&NewToken { token: shown, digest });
                output.text(&format!("{}\n", text.map_err(io::Error::from)?))?;
            }
            (false, Some(shown)) => {
                output.text(&format!("{shown}\n"))?;
                talk(&format!("its line in the file of principals: {line}"));
            }
            (false, None) => output.text(&format!("{line}\n"))?,
            (true, _) => output.json(&NewToken { token: shown, digest })?,
        }
        io::stdout().flush()?;
        Ok(Exit::Done)
    }
}

/// Refuses to print a token into a file that others may read.
pub(super) fn refuse_if_others_read_stdout() -> anyhow::Result<()> {
    private_file::refuse_if_others_read(
        &io::stdout(),
        "a token lets everybody call who reads it: use umask 077, or \"tenure token new --file\"",
    )
}
