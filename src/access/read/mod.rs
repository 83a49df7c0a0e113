//! Reads the file. It is read to its end whatever is wrong, so that no fault hides another.

mod cells;
mod fields;
mod file;
mod jwt;
mod principal;
mod shared;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use rustix::process::{Uid, geteuid};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use self::{cells::Cells, jwt::IssuerDraft, principal::Draft};
use super::{principals::Access, warnings};
use crate::{files::judged_for, settings::Faults};

/// What a look at the file found.
pub struct Reading {
    /// The files of keys that it names, as far as it can be read.
    pub named: Vec<PathBuf>,
    /// The principals, or all faults, each with its line.
    pub access: Result<Access, Faults>,
}

impl Access {
    /// Reads a file. `now_ms` is the time in milliseconds since 1970, for warnings about principals that end.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn read(path: &Path, now_ms: u64) -> Result<Self, Faults> {
        Self::look(path, now_ms, geteuid()).access
    }

    /// Reads a file for a command: root may judge the file of a coordinator that runs as another user.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn judge(path: &Path, now_ms: u64) -> Result<Self, Faults> {
        Self::look(path, now_ms, judged_for(path)).access
    }

    /// Reads a file that only root and this user may change, and says which other files it names.
    #[must_use]
    pub fn look(path: &Path, now_ms: u64, user: Uid) -> Reading {
        let (content, warning) = match file::read(path, user) {
            Ok(read) => read,
            Err(fault) => return Reading { named: Vec::new(), access: Err(Faults(vec![fault])) },
        };
        let mut reading = Self::reading(path, &content, now_ms, user);
        if let Ok(access) = &mut reading.access {
            access.warnings.splice(..0, warning);
        }
        reading
    }

    /// Reads the content of the file at this path, and the files of keys that it names.
    ///
    /// # Errors
    /// All faults of the content and of those files, each with its line.
    pub fn parse(path: &Path, content: &str, now_ms: u64) -> Result<Self, Faults> {
        Self::reading(path, content, now_ms, geteuid()).access
    }

    fn reading(path: &Path, content: &str, now_ms: u64, user: Uid) -> Reading {
        let mut cells = Cells::new(path, content, user);
        let (drafts, issuers) = drafts(&mut cells);
        shared::judge(&drafts, &issuers, &mut cells);
        let Cells { mut faults, named, .. } = cells;
        faults.sort_by_key(cells::line);
        let principals = drafts.into_iter().filter_map(Draft::finish).collect();
        let issuers = issuers.into_iter().filter_map(IssuerDraft::finish).collect();
        let access = Faults(faults).or(Self::new(principals, issuers)).map(|mut access| {
            access.warnings = warnings::of_time(&access, now_ms);
            access.warnings.extend(warnings::loose(&access));
            access
        });
        Reading { named, access }
    }
}

/// What can be read of each principal, and of each issuer.
fn drafts(cells: &mut Cells<'_>) -> (Vec<Draft>, Vec<IssuerDraft>) {
    let (mut drafts, mut issuers) = (Vec::new(), Vec::new());
    let mut any = false;
    for (key, value) in &cells.parse() {
        match &**key.get_ref() {
            "principal" => {
                any = true;
                let all = tables("principal", ", so nobody could call", key, value, cells);
                drafts.extend(all.into_iter().map(|(at, table)| Draft::read(at, table, cells)));
            }
            "jwt" => {
                let all = tables("jwt", ": leave it out, or name an issuer", key, value, cells);
                let read = |(at, table)| IssuerDraft::read(at, table, cells);
                issuers.extend(all.into_iter().map(read));
            }
            other => cells.fault(
                key.span().start,
                other,
                "is unknown: the file has tables [[principal]] and [[jwt]] alone",
            ),
        }
    }
    if !any && cells.faults.is_empty() {
        cells.fault_of_all("has no [[principal]], so nobody could call: \"tenure access init\" writes a file with one");
    }
    (drafts, issuers)
}

/// The tables of a list, and where each begins.
fn tables<'t, 'v>(
    name: &str,
    if_empty: &str,
    key: &Spanned<Cow<'_, str>>,
    value: &'t Spanned<DeValue<'v>>,
    cells: &mut Cells<'_>,
) -> Vec<(usize, &'t DeTable<'v>)> {
    let DeValue::Array(items) = value.get_ref() else {
        let problem = format!("must be a list of tables: write [[{name}]]");
        cells.fault(key.span().start, name, problem);
        return Vec::new();
    };
    if items.is_empty() {
        cells.fault(key.span().start, name, format!("is an empty list{if_empty}"));
    }
    let mut tables = Vec::new();
    for item in items.iter() {
        match item.get_ref() {
            DeValue::Table(table) => tables.push((item.span().start, table)),
            _ => {
                let problem = format!("must be a table: write [[{name}]]");
                cells.fault(item.span().start, name, problem);
            }
        }
    }
    tables
}
