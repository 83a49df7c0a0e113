//! `tenure context`: names for clusters.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    exit::{Exit, Failure},
    output::{Output, dash, shown},
    servers::{Contexts, Entry, Reached, ServerArgs},
};

const HEADING: [&str; 6] = ["CURRENT", "NAME", "SERVER", "CA", "TOKEN_FILE", "TLS_CERT"];

/// Name clusters, and choose the one that commands call.
///
/// A context is how the servers of one cluster are reached: their URLs, the CA certificates, and the files with the
/// token or the certificate of the caller. Contexts are in $XDG_CONFIG_HOME/tenure/contexts.toml, or
/// ~/.config/tenure/contexts.toml: a table for each name, with server, ca, token_file, tls_cert, tls_key and
/// plaintext_token. The file names files with secrets and has no secrets itself. Nobody else may be able to write it.
///
/// Options and environment variables win over a context. --server and TENURE_SERVER leave it out as a whole, so that
/// its token goes to its own servers alone.
#[derive(Clone, Debug, Args)]
pub struct ContextsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List the contexts
    Ls,
    /// Choose the context that commands use when nothing else names a server
    Use {
        /// Name of the context
        #[arg(required_unless_present = "none", conflicts_with = "none")]
        context_name: Option<String>,
        /// Use no context
        #[arg(long)]
        none: bool,
    },
    /// Show how servers are reached now, or by a context
    Show {
        /// Name of the context [default: what the options, the environment and the current context say]
        context_name: Option<String>,
    },
    /// Add a context with the values of --server, --ca, --token-file, --tls-cert, --tls-key and --plaintext-token
    Add {
        /// Name of the new context: letters, digits, `-` and `_`
        context_name: String,
    },
}

/// A context as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    name: Option<String>,
    current: bool,
    #[serde(flatten)]
    entry: Entry,
}

impl ContextsArgs {
    pub(super) fn run(self, servers: &ServerArgs, output: &Output) -> Result<Exit, Failure> {
        let contexts = Contexts::of_user();
        let contexts = contexts
            .ok_or_else(|| Failure::Usage("contexts need HOME or XDG_CONFIG_HOME".to_owned()))?;
        match self.action {
            Action::Ls => ls(&contexts, output)?,
            Action::Use { context_name, none } => {
                contexts.choose(context_name.as_deref().filter(|_| !none))?;
            }
            Action::Show { context_name } => {
                let (name, entry) = match context_name {
                    Some(name) => (Some(name.clone()), contexts.named(&name)?),
                    None => {
                        let Reached { context, entry } = servers.reached()?;
                        (context, entry)
                    }
                };
                let current = name.is_some() && contexts.current()? == name;
                let shown = Shown { name, current, entry };
                output.record(&shown, &rows(&shown))?;
            }
            Action::Add { context_name } => {
                if servers.server.is_none() {
                    let problem = "say with --server which servers the context is for";
                    return Err(Failure::Usage(problem.to_owned()));
                }
                contexts.add(&context_name, &servers.reached()?.entry)?;
            }
        }
        Ok(Exit::Done)
    }
}

fn ls(contexts: &Contexts, output: &Output) -> Result<(), Failure> {
    let current = contexts.current()?;
    let all = contexts.all()?.into_iter().map(|(name, entry)| {
        let current = current.as_deref() == Some(name.as_str());
        Shown { name: Some(name), current, entry }
    });
    let all: Vec<Shown> = all.collect();
    let whole = serde_json::json!({ "contexts": all });
    output.list("contexts", &whole, &all, &HEADING, cells)?;
    Ok(())
}

fn path(path: Option<&std::path::PathBuf>) -> String {
    path.map_or_else(dash, |path| shown(&path.to_string_lossy()))
}

fn cells(one: &Shown) -> Vec<String> {
    vec![
        if one.current { "*".to_owned() } else { String::new() },
        one.name.as_deref().map_or_else(dash, shown),
        shown(&one.entry.server),
        path(one.entry.ca.as_ref()),
        path(one.entry.token_file.as_ref()),
        path(one.entry.tls_cert.as_ref()),
    ]
}

fn rows(one: &Shown) -> Vec<(String, String)> {
    let Entry { server, ca, token_file, tls_cert, tls_key, plaintext_token } = &one.entry;
    let rows = [
        ("context", one.name.as_deref().map_or_else(dash, shown)),
        ("server", shown(server)),
        ("ca", path(ca.as_ref())),
        ("token_file", path(token_file.as_ref())),
        ("tls_cert", path(tls_cert.as_ref())),
        ("tls_key", path(tls_key.as_ref())),
        ("plaintext_token", plaintext_token.to_string()),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}
