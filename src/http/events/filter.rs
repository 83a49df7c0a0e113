//! Selects the events that a subscriber wants.

use crate::{
    api::EventsQuery,
    http::{answer::Problem, caller::Caller},
    lease::ChangeKind,
    manager::Manager,
    store::Committed,
};

/// The events that a subscriber wants.
pub struct Filter {
    prefix: String,
    owner: Option<String>,
    types: Option<Vec<ChangeKind>>,
    pool: Option<String>,
    /// Who subscribed.
    caller: Caller,
}

impl Filter {
    /// Reads the filter from a query.
    pub fn of(caller: Caller, query: &EventsQuery) -> Result<Self, Problem> {
        let types = match query.types.as_deref() {
            None | Some("") => None,
            Some(list) => Some(parse_types(list)?),
        };
        Ok(Self {
            prefix: query.prefix.clone().unwrap_or_default(),
            owner: query.owner.clone(),
            types,
            pool: query.pool.clone(),
            caller,
        })
    }

    /// All changes of keys of a pool.
    pub fn of_pool(caller: Caller, pool: &str) -> Self {
        let (prefix, pool) = (String::new(), Some(pool.to_owned()));
        Self { prefix, owner: None, types: None, pool, caller }
    }

    /// Who subscribed.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Whether the subscriber gets this change.
    pub fn wants(&self, manager: &Manager, committed: &Committed) -> bool {
        if committed.key.is_internal() {
            return false;
        }
        let change = &committed.change;
        let owner_fits = self.owner.as_deref().is_none_or(|owner| {
            let previous = change.previous.as_ref().map(|(owner, _)| owner.as_str());
            change.owner.as_ref().map(|owner| owner.as_str()) == Some(owner)
                || previous == Some(owner)
        });
        let key = committed.key.as_str();
        owner_fits
            && key.starts_with(&self.prefix)
            && self.caller.reads(key)
            && self.pool.as_deref().is_none_or(|pool| manager.is_in_pool(key, pool))
            && self.types.as_ref().is_none_or(|types| types.contains(&change.kind))
    }
}

/// Short types that are valid but match no change.
const SILENT: [&str; 2] = ["reset", "frozen"];

fn parse_types(list: &str) -> Result<Vec<ChangeKind>, Problem> {
    let mut types = Vec::new();
    for name in list.split(',').map(str::trim) {
        match ChangeKind::ALL.iter().find(|kind| kind.as_str() == name) {
            Some(kind) => types.push(*kind),
            None if SILENT.contains(&name) => {}
            None => {
                let known = ChangeKind::ALL.iter().map(|kind| kind.as_str());
                let known = known.chain(SILENT).collect::<Vec<_>>().join(", ");
                let detail = format!("names {name:?}; the types are {known}");
                return Err(Problem::field("types", detail));
            }
        }
    }
    Ok(types)
}
