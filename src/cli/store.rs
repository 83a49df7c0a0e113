//! `tenure store`: checks a store before a coordinator is started on it.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{Exit, Failure, Output, SettingsArgs, output::shown};
use crate::{
    access::Access,
    manager::engine::{self, Surroundings},
    settings::{Faults, Settings},
    store::{Finding, Grade},
};

const HEADING: [&str; 3] = ["CHECK", "RESULT", "DETAIL"];

/// Check a store
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Verify(VerifyArgs),
}

/// Check settings, access file, credentials and store before a deployment; changes nothing
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Check settings, access file, credentials and store before a deployment.\n\n\
        Run it with the program, the settings and the user of the deployment. It prints one line for \
        each check: ok, warning, or failed, with what to do. It exits with code 1 if a check failed, \
        and with 0 otherwise. It changes nothing and serves nobody. A shared store may be in use \
        meanwhile. An embedded store that a coordinator has open is checked but for its log and its \
        records. All records are read, which on DynamoDB costs a read unit for each 4 KB."
)]
struct VerifyArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// What was found.
#[derive(Serialize)]
struct Verified<'a> {
    /// Whether no check failed.
    ok: bool,
    /// The kind of the store, and where it is; absent where the settings have faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<Named>,
    checks: &'a [Finding],
}

#[derive(Serialize)]
struct Named {
    kind: &'static str,
    place: String,
}

impl StoreArgs {
    pub(super) async fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let Action::Verify(args) = &self.action;
        let (store, checks) = args.check().await;
        let ok = checks.iter().all(|check| check.result != Grade::Failed);
        let whole = Verified { ok, store, checks: &checks };
        output.list("checks", &whole, &checks, &HEADING, row)?;
        Ok(if ok { Exit::Done } else { Exit::Other })
    }
}

fn row(finding: &Finding) -> Vec<String> {
    let Finding { check, result, detail } = finding;
    vec![(*check).to_owned(), result.as_str().to_owned(), shown(detail)]
}

impl VerifyArgs {
    async fn check(&self) -> (Option<Named>, Vec<Finding>) {
        let loaded = match self.settings.load() {
            Ok(loaded) => loaded,
            Err(faults) => return (None, vec![Finding::failed("settings", listed(&faults))]),
        };
        let mut checks = vec![match loaded.check_files() {
            Ok(()) => Finding::ok("settings", "no fault"),
            Err(faults) => Finding::failed("settings", listed(&faults)),
        }];
        let settings = loaded.settings;
        let surroundings = Surroundings::of_a_command(&settings);
        checks.push(access(&settings, surroundings.clock.wall_ms()));
        checks.extend(engine::verify(&settings, &surroundings).await);
        let (kind, place) = (settings.store.kind.as_str(), engine::place(&settings));
        (Some(Named { kind, place }), checks)
    }
}

/// All faults, on one line.
fn listed(faults: &Faults) -> String {
    let all: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
    all.join("; ")
}

/// Checks the file of principals.
fn access(settings: &Settings, now_ms: u64) -> Finding {
    let file = &settings.auth.file;
    if file.as_os_str().is_empty() {
        let detail = "auth.file names no file: whoever reaches the coordinator may do everything";
        return if settings.is_open_door() {
            Finding::warning("access", format!("{detail} (docs/access.md)"))
        } else {
            Finding::ok("access", detail)
        };
    }
    match Access::judge(file, now_ms) {
        Ok(access) => match access.review() {
            odd if odd.is_empty() => {
                Finding::ok("access", format!("{} principals", access.principals().len()))
            }
            odd => Finding::warning("access", odd.join("; ")),
        },
        Err(faults) => Finding::failed("access", listed(&faults)),
    }
}
