//! The command line: one file per command, and one table of exit codes.
//!
//! Guarantees: data goes to stdout, messages go to stderr. The exit codes are those of [`Exit`]. Durations are written
//! `250ms`, `15s`, `2m`. The only secrets that are printed are those that the caller asked for: a `lease_id`, the id of
//! a new session, a new token.
//!
//! Does not guarantee: the exact words of messages on stderr, or of the `table` output. Programs must read `json` or
//! `jsonl`.

mod access;
mod access_file;
mod acquire;
mod args;
mod attention;
mod audit;
mod backup;
mod backup_file;
mod backup_socket;
mod backup_store;
mod certificate;
mod check;
mod colour;
mod complete;
mod completions;
mod config;
mod context;
mod contexts;
mod coordinator;
mod cron;
mod demo;
mod descriptors;
mod drain;
mod event_line;
mod exit;
mod expiry;
mod fence_retry;
mod fence_skip;
mod figures;
mod follower;
mod forget;
mod format;
mod get;
mod guard;
mod guardian;
mod heartbeat;
mod history;
mod ls;
mod man;
mod mcp;
mod nodes;
mod output;
mod pin;
mod pool;
mod pools;
mod private_file;
mod promise;
mod raise;
mod ready;
mod release;
mod restore;
mod revoke;
mod run;
mod runbook;
mod secret;
mod serve;
mod servers;
mod sessions;
mod settings_file;
mod socket;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod token;
mod top;
mod traces;
mod transfer;
mod watch;
mod when;
mod work;

use std::{
    ffi::{OsStr, OsString},
    future::Future,
    process::ExitCode,
};

use clap::{
    ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum as _,
};

pub use args::SettingsArgs;
pub use colour::Color;
pub use exit::{Exit, Failure};
pub use format::Format;
pub use output::Output;

use context::{Context, telling};
use servers::ServerArgs;

/// What `--help` says before the list of commands.
const BEGIN: &str = "\
A lease manager: every shard, job or singleton has exactly one owner, proven by a fencing token

Start here:
  tenure serve                         run a server on this machine
  tenure lock jobs/nightly -- PROGRAM  run a program while it holds a lock
  tenure status                        what needs a person, and the command that helps
  tenure top                           what changes most, and what happens now";

/// A lease manager: every shard, job or singleton has exactly one owner, proven by a fencing token.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100)]
#[command(long_about = BEGIN, after_help = Exit::table())]
pub struct Cli {
    // The heading is also that of what follows.
    #[command(flatten, next_help_heading = "Global options")]
    servers: ServerArgs,
    /// Output format
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// When the output has colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(SettingsArgs),
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Lock(run::LockArgs),
    Work(work::WorkArgs),
    Cron(cron::CronArgs),
    Mcp(mcp::McpArgs),
    Acquire(acquire::AcquireArgs),
    Heartbeat(heartbeat::HeartbeatArgs),
    Release(release::ReleaseArgs),
    Get(get::GetArgs),
    Ls(ls::LsArgs),
    Nodes(nodes::NodesArgs),
    Ready(ready::ReadyArgs),
    Check(check::CheckArgs),
    Status(status::StatusArgs),
    Top(top::TopArgs),
    History(history::HistoryArgs),
    Watch(watch::WatchArgs),
    Revoke(revoke::RevokeArgs),
    Drain(drain::DrainArgs),
    Pin(pin::PinArgs),
    Unpin(pin::UnpinArgs),
    FenceSkip(fence_skip::FenceSkipArgs),
    FenceRetry(fence_retry::FenceRetryArgs),
    Forget(forget::ForgetArgs),
    Sessions(sessions::SessionsArgs),
    Pools(pools::PoolsArgs),
    Pool(pool::PoolArgs),
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
    Context(contexts::ContextsArgs),
    #[command(hide = true)]
    Guardian(guardian::GuardianArgs),
    #[command(hide = true)]
    Guarded(guardian::GuardedArgs),
    #[command(hide = true)]
    LastWill(guard::LastWillArgs),
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    Completions(completions::CompletionsArgs),
    Runbook(runbook::RunbookArgs),
    Man(man::ManArgs),
}

impl Command {
    /// The formats in which this command prints a single field.
    fn fields(&self) -> &'static [Format] {
        match self {
            Self::Acquire(_) => &[Format::Key, Format::Token, Format::LeaseId],
            Self::Heartbeat(_) | Self::Get(_) | Self::Ls(_) => &[Format::Key, Format::Token],
            Self::Sessions(args) => args.fields(),
            _ => &[],
        }
    }

    /// Refuses a format that it cannot print, before it does anything.
    fn check(&self, format: Format) -> Result<(), Failure> {
        if format.field().is_none() || self.fields().contains(&format) {
            return Ok(());
        }
        let name = format.name();
        Err(Failure::Usage(format!(
            "this command has no --output {name}: use table, wide, json or jsonl"
        )))
    }
}

/// Runs the command that this process's arguments name.
#[must_use]
pub fn main() -> ExitCode {
    let command = without_empty_variables(Cli::command());
    let arguments = runbook::without_help(std::env::args_os().collect());
    let parsed = command.try_get_matches_from(arguments).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches);
        cli.map(|cli| (cli, matches)).map_err(|error| error.format(&mut Cli::command()))
    });
    match parsed {
        Ok((cli, matches)) => {
            let output = Output::new(cli.output, cli.color);
            let ran = cli.command.check(cli.output).and_then(|()| run(cli, &matches, output));
            ran.unwrap_or_else(|failure| report(&failure, output).into())
        }
        Err(error) => {
            // Help and version are what the user asked for. Everything else is a usage error.
            if !error.use_stderr() {
                let _ = error.print();
                return Exit::Done.into();
            }
            match asked_for(std::env::args_os()) {
                Some(format) if format.is_json() => {
                    let text = error.render().to_string();
                    let what =
                        text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ");
                    Output::new(format, Color::Never).refusal(what, Exit::Usage);
                }
                // It repeats arguments, which may have characters that are not seen.
                _ => output::refuse_arguments(&error.render().to_string()),
            }
            Exit::Usage.into()
        }
    }
}

/// The same command, whose options do not read the environment variables that are empty: an empty variable is no value.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| match arg.get_env() {
        Some(name) if is_empty(name) => arg.env(None),
        _ => arg,
    });
    command.mut_subcommands(without_empty_variables)
}

/// The output format that faulty arguments name, as far as it can be recognized.
fn asked_for(arguments: impl Iterator<Item = OsString>) -> Option<Format> {
    let own = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let mut own = own.take_while(|argument| argument != "--");
    let value = loop {
        let argument = own.next()?;
        let rest = match argument.strip_prefix("--output") {
            Some(rest) => Some(rest).filter(|rest| rest.is_empty() || rest.starts_with('=')),
            None => argument.strip_prefix("-o"),
        };
        match rest {
            Some("") => break own.next()?,
            Some(rest) => break rest.strip_prefix('=').unwrap_or(rest).to_owned(),
            None => {}
        }
    };
    Format::from_str(&value, true).ok()
}

fn run(cli: Cli, matches: &ArgMatches, output: Output) -> Result<ExitCode, Failure> {
    let Cli { servers, command, .. } = cli;
    let servers = servers.settled(matches)?;
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
        Command::Cron(args) => {
            let context = context()?;
            return block_on(telling(&context.client, args.run(&context)));
        }
        Command::Lock(args) => {
            let context = context()?;
            let args = run::RunArgs::from(args);
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
        Command::Demo(args) => args.run(),
        Command::Acquire(args) => block_on(args.run(&context()?)),
        Command::Heartbeat(args) => block_on(args.run(&context()?)),
        Command::Release(args) => block_on(args.run(&context()?)),
        Command::Get(args) => block_on(args.run(&context()?)),
        Command::Ls(args) => block_on(args.run(&context()?)),
        Command::Nodes(args) => block_on(args.run(&context()?)),
        Command::Ready(args) => block_on(args.run(&context()?)),
        Command::Check(args) => block_on(args.run(&context()?)),
        Command::Status(args) => block_on(args.run(&context()?)),
        Command::Top(args) => block_on(args.run(&context()?)),
        Command::History(args) => block_on(args.run(&context()?)),
        Command::Watch(args) => block_on(args.run(&context()?)),
        Command::Revoke(args) => block_on(args.run(&context()?)),
        Command::Drain(args) => block_on(args.run(&context()?)),
        Command::Pin(args) => block_on(args.run(&context()?)),
        Command::Unpin(args) => block_on(args.run(&context()?)),
        Command::FenceSkip(args) => block_on(args.run(&context()?)),
        Command::FenceRetry(args) => block_on(args.run(&context()?)),
        Command::Forget(args) => block_on(args.run(&context()?)),
        Command::Sessions(args) => block_on(args.run(&context()?)),
        Command::Pools(args) => block_on(args.run(&context()?)),
        Command::Pool(args) => block_on(args.run(&context()?)),
        Command::Transfer(args) => block_on(args.run(&context()?)),
        Command::Backup(args) => block_on(args.run(&output)),
        Command::Restore(args) => block_on(args.run(&output)),
        Command::Secret(args) => block_on(args.run(&output)),
        Command::Store(args) => block_on(args.run(&output)),
        Command::Audit(args) => args.run(&output),
        Command::Config(args) => args.run(&output),
        Command::Access(args) => block_on(args.run(&output, context)),
        Command::Token(args) => args.run(&output),
        Command::Context(args) => args.run(&servers, &output),
        Command::Complete(args) => args.run(Cli::command(), &output),
        Command::Completions(args) => args.run(Cli::command(), &output),
        Command::Man(args) => args.run(Cli::command(), &output),
        Command::Runbook(args) => args.run(&output),
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
    if output.format.is_json() {
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
