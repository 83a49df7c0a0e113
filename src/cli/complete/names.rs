//! Names that only a server knows: keys, owners, pools, sessions. And the user's contexts.

use std::{collections::BTreeSet, time::Duration};

use clap::Arg;

use super::form::Candidate;
use crate::{
    cli::{
        exit::Failure,
        servers::{Contexts, ServerArgs},
    },
    client::{Client, LeaseFilter},
    lease::ChangeKind,
};

/// How long a person waits for words.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most keys that are offered: nobody reads more.
const KEYS: u32 = 200;
/// The most leases whose owners are offered.
const LEASES: u32 = 1000;

/// Where the values of an argument come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Words(Vec<Candidate>),
    Names(Names),
    Files,
}

/// Names that have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Keys,
    Owners,
    Pools,
    /// Digests of sessions.
    Sessions,
    Contexts,
}

impl Source {
    /// The values of this argument.
    pub(super) fn of(arg: &Arg) -> Self {
        let values = arg.get_possible_values();
        if !values.is_empty() {
            let shown = values.iter().filter(|value| !value.is_hide_set());
            let word = |value: &clap::builder::PossibleValue| Candidate {
                word: value.get_name().to_owned(),
                help: value.get_help().map(ToString::to_string).unwrap_or_default(),
            };
            return Self::Words(shown.map(word).collect());
        }
        match arg.get_id().as_str() {
            "key" | "keys" | "any" | "prefix" => Self::Names(Names::Keys),
            "owner" | "to" => Self::Names(Names::Owners),
            "pool" => Self::Names(Names::Pools),
            "session" if is_named(arg, "DIGEST") => Self::Names(Names::Sessions),
            "context" | "context_name" => Self::Names(Names::Contexts),
            "types" => {
                let kinds = ChangeKind::ALL.iter().map(|kind| Candidate::named(kind.as_str()));
                Self::Words(kinds.collect())
            }
            _ if is_path(arg) => Self::Files,
            _ => Self::Words(Vec::new()),
        }
    }
}

fn is_named(arg: &Arg, name: &str) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|one| one.as_str() == name))
}

fn is_path(arg: &Arg) -> bool {
    let path = std::any::TypeId::of::<std::path::PathBuf>();
    arg.get_value_parser().type_id() == path
        || ["FILE", "DIR", "PATH"].iter().any(|name| is_named(arg, name))
}

/// The names that begin so, or none if they cannot be had in time.
pub(super) fn find(names: Names, servers: &ServerArgs, partial: &str) -> BTreeSet<String> {
    if names == Names::Contexts {
        let contexts = Contexts::of_user().and_then(|contexts| contexts.all().ok());
        return contexts.into_iter().flatten().map(|(name, _)| name).collect();
    }
    asked(names, servers, partial).unwrap_or_default()
}

fn asked(names: Names, servers: &ServerArgs, partial: &str) -> Result<BTreeSet<String>, Failure> {
    let client = servers.client()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(anyhow::Error::from)?;
    let asked = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, ask(names, &client, partial)).await });
    // The look-up of a host's name cannot be stopped, and is not waited for.
    runtime.shutdown_background();
    asked.map_err(|_| Failure::TimedOut("no answer in time".to_owned()))?
}

async fn ask(names: Names, client: &Client, partial: &str) -> Result<BTreeSet<String>, Failure> {
    let prefix = Some(partial.to_owned()).filter(|partial| !partial.is_empty());
    Ok(match names {
        Names::Keys => {
            let filter = LeaseFilter { prefix, limit: Some(KEYS), ..LeaseFilter::default() };
            client.leases(&filter).await?.leases.into_iter().map(|lease| lease.key).collect()
        }
        Names::Owners => {
            let state = Some("held".to_owned());
            let filter = LeaseFilter { state, limit: Some(LEASES), ..LeaseFilter::default() };
            let leases = client.leases(&filter).await?.leases;
            let sessions = client.sessions(None, None).await?.sessions;
            let of_sessions = sessions.into_iter().map(|session| session.owner);
            leases.into_iter().filter_map(|lease| lease.owner).chain(of_sessions).collect()
        }
        Names::Pools => client.pools().await?.pools.into_iter().map(|pool| pool.pool).collect(),
        Names::Sessions => {
            let sessions = client.sessions(None, None).await?.sessions;
            sessions.into_iter().map(|session| session.digest).collect()
        }
        Names::Contexts => BTreeSet::new(),
    })
}
