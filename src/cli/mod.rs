//! The command line: one file per command, and one table of exit codes.
//!
//! Guarantees: data goes to stdout, messages go to stderr. The exit codes are those of [`Exit`]. Durations are written
//! `250ms`, `15s`, `2m`. The only secrets that are printed are those that the caller asked for: a `lease_id`, a new token.
//!
//! Does not guarantee: the exact words of messages on stderr, or of the `table` output. Programs must read `json` or
//! `jsonl`.

mod access;
mod acquire;
mod args;
mod audit;
mod backup;
mod backup_file;
mod certificate;
mod check;
mod completions;
mod config;
mod context;
mod coordinator;
mod demo;
mod descriptors;
mod exit;
mod fence_skip;
mod forget;
mod get;
mod guard;
mod guardian;
mod ls;
mod man;
mod mcp;
mod nodes;
mod output;
mod pools;
mod private_file;
mod raise;
mod ready;
mod release;
mod restore;
mod revoke;
mod run;
mod secret;
mod serve;
mod sessions;
mod socket;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod transfer;
mod watch;
mod work;

use std::{ffi::OsString, future::Future, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum as _};

pub use args::SettingsArgs;
pub use exit::{Exit, Failure};
pub use output::{Format, Output};

use context::{Context, telling};

use crate::client::{Client, ClientBuilder};

/// A lease manager: every shard, job or singleton has exactly one owner, proven by a fencing token.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100)]
#[command(after_help = Exit::table())]
pub struct Cli {
    // The heading is also that of what follows.
    #[command(flatten, next_help_heading = "Global options")]
    servers: ServerArgs,
    /// Output format
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(SettingsArgs),
    /// Show what tenure does, with a temporary server in this process
    Demo,
    Run(run::RunArgs),
    Work(work::WorkArgs),
    Mcp(mcp::McpArgs),
    Acquire(acquire::AcquireArgs),
    Release(release::ReleaseArgs),
    Get(get::GetArgs),
    Ls(ls::LsArgs),
    Nodes(nodes::NodesArgs),
    Ready(ready::ReadyArgs),
    Check(check::CheckArgs),
    Watch(watch::WatchArgs),
    Revoke(revoke::RevokeArgs),
    FenceSkip(fence_skip::FenceSkipArgs),
    Forget(forget::ForgetArgs),
    Sessions(sessions::SessionsArgs),
    Pools(pools::PoolsArgs),
    Transfer(transfer::TransferArgs),
    Guard(Box<guard::GuardArgs>),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Secret(secret::SecretArgs),
    Store(store::StoreArgs),
    Audit(audit::AuditArgs),
    Config(config::ConfigArgs),
    Access(access::AccessArgs),
    Token(token::TokenArgs),
    #[command(hide = true)]
    Guardian(guardian::GuardianArgs),
    #[command(hide = true)]
    Guarded(guardian::GuardedArgs),
    #[command(hide = true)]
    LastWill(guard::LastWillArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the command that this process's arguments name.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => {
            let output = Output::new(cli.output);
            run(cli, output).unwrap_or_else(|failure| report(&failure, output).into())
        }
        Err(error) => {
            // Help and version are what the user asked for. Everything else is a usage error.
            if !error.use_stderr() {
                let _ = error.print();
                return Exit::Done.into();
            }
            match asked_for(std::env::args_os()) {
                Some(format) if format != Format::Table => {
                    let text = error.render().to_string();
                    let what =
                        text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ");
                    Output::new(format).refusal(what, Exit::Usage);
                }
                _ => drop(error.print()),
            }
            Exit::Usage.into()
        }
    }
}

/// The output format that faulty arguments name, as far as it can be recognized.
fn asked_for(arguments: impl Iterator<Item = OsString>) -> Option<Format> {
    let own = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let mut own = own.take_while(|argument| argument != "--");
    let value = loop {
        let argument = own.next()?;
        match argument.strip_prefix("--output") {
            Some("") => break own.next()?,
            Some(rest) if rest.starts_with('=') => break rest[1..].to_owned(),
            _ => {}
        }
    };
    Format::from_str(&value, true).ok()
}

/// How the server is reached.
#[derive(Clone, Debug, Args)]
struct ServerArgs {
    /// Server URL, or unix:/path; several servers of one store, separated by commas, are tried in turn
    #[arg(
        long,
        global = true,
        env = "TENURE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7373"
    )]
    server: String,
    /// PEM file with the CA certificates to trust for https servers, instead of the system's
    #[arg(long, global = true, env = "TENURE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the certificate that proves to https servers who calls
    #[arg(long, global = true, env = "TENURE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of that certificate
    #[arg(long, global = true, env = "TENURE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// HTTP proxy for calls to the server; HTTP_PROXY and similar variables are ignored
    #[arg(long, global = true, env = "TENURE_PROXY", hide_env_values = true, value_name = "URL")]
    proxy: Option<String>,
    /// File whose first line is the token that proves to the server who calls; it is read again when the server does
    /// not know the token
    #[arg(long, global = true, env = "TENURE_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Send the token in plain text to servers on other machines too, where whoever is on the network can read it
    #[arg(
        long,
        global = true,
        env = "TENURE_PLAINTEXT_TOKEN",
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    plaintext_token: bool,
}

impl ServerArgs {
    fn client(&self) -> Result<Client, Failure> {
        // An empty variable counts as unset.
        let file =
            |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let proxy = self.proxy.as_deref().filter(|url| !url.is_empty());
        let client = Client::builder(&self.server).plaintext_token(self.plaintext_token);
        let client = file(&self.ca).into_iter().fold(client, ClientBuilder::ca);
        let client = file(&self.token_file).into_iter().fold(client, ClientBuilder::token_file);
        let client = match (file(&self.tls_cert), file(&self.tls_key)) {
            (Some(cert), Some(key)) => client.client_certificate(cert, key),
            (None, None) => client,
            _ => {
                let problem = "--tls-cert and --tls-key are a pair: give both, or neither";
                return Err(Failure::Usage(problem.to_owned()));
            }
        };
        Ok(proxy.into_iter().fold(client, ClientBuilder::proxy).build()?)
    }
}

fn run(cli: Cli, output: Output) -> Result<ExitCode, Failure> {
    let Cli { servers, command, .. } = cli;
    let client = || servers.client();
    let context = || Ok::<_, Failure>(Context { client: client()?, output });
    let exit = match command {
        Command::Work(args) => {
            let context = context()?;
            block_on(telling(&context.client, args.run(&context)))
        }
        Command::Mcp(args) => {
            let context = context()?;
            block_on(telling(&context.client, args.run(&context)))
        }
        Command::Run(args) => {
            let context = context()?;
            return block_on(telling(&context.client, args.run(&context)));
        }
        Command::Guard(args) => {
            let client = client()?;
            block_on(telling(&client, args.run(client.clone())))
        }
        Command::LastWill(args) => block_on(args.run(client()?)),
        Command::Guarded(args) => return Ok(args.run().into()),
        Command::Guardian(args) => block_on(args.run()),
        Command::Serve(settings) => serve::run(&settings),
        Command::Demo => demo::run(),
        Command::Acquire(args) => block_on(args.run(&context()?)),
        Command::Release(args) => block_on(args.run(&context()?)),
        Command::Get(args) => block_on(args.run(&context()?)),
        Command::Ls(args) => block_on(args.run(&context()?)),
        Command::Nodes(args) => block_on(args.run(&context()?)),
        Command::Ready(args) => block_on(args.run(&context()?)),
        Command::Check(args) => block_on(args.run(&context()?)),
        Command::Watch(args) => block_on(args.run(&context()?)),
        Command::Revoke(args) => block_on(args.run(&context()?)),
        Command::FenceSkip(args) => block_on(args.run(&context()?)),
        Command::Forget(args) => block_on(args.run(&context()?)),
        Command::Sessions(args) => block_on(args.run(&context()?)),
        Command::Pools(args) => block_on(args.run(&context()?)),
        Command::Transfer(args) => block_on(args.run(&context()?)),
        Command::Backup(args) => block_on(args.run(&output)),
        Command::Restore(args) => block_on(args.run(&output)),
        Command::Secret(args) => block_on(args.run(&output)),
        Command::Store(args) => block_on(args.run(&output)),
        Command::Audit(args) => args.run(&output),
        Command::Config(args) => args.run(&output),
        Command::Access(args) => args.run(&output),
        Command::Token(args) => args.run(&output),
        Command::Completions(args) => args.run(Cli::command(), &output),
        Command::Man(args) => args.run(Cli::command(), &output),
    }?;
    Ok(exit.into())
}

/// Runs a client command on one thread: it has only one or two connections.
fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(anyhow::Error::from)?.block_on(command)
}

/// Reports what failed, and what to do about it where the server knows: in words, or as the server's problem document
/// if the output format is JSON.
fn report(failure: &Failure, output: Output) -> Exit {
    let exit = failure.exit();
    if exit == Exit::Done {
        return exit;
    }
    if output.format != Format::Table {
        output.problem(failure, exit);
        return exit;
    }
    output::talk(&failure.to_string());
    if let Failure::Client(error) = failure
        && let Some(ms) = error.problem().and_then(|problem| problem.retry_after_ms)
    {
        output::talk(&format!("try again in {}", output::span(Some(ms))));
    }
    exit
}
