//! Reads the file. It is read to its end whatever is wrong, so that no fault hides another.

mod cells;
mod fields;
mod file;
mod principal;
mod shared;

use std::path::Path;

use toml::de::DeValue;

use self::{cells::Cells, principal::Draft};
use super::{principals::Access, warnings};
use crate::settings::Faults;

impl Access {
    /// Reads a file. `now_ms` is the time in milliseconds since 1970, for warnings about principals that end.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn read(path: &Path, now_ms: u64) -> Result<Self, Faults> {
        let (content, warning) = file::read(path).map_err(|fault| Faults(vec![fault]))?;
        let mut access = Self::parse(path, &content, now_ms)?;
        access.warnings.splice(..0, warning);
        Ok(access)
    }

    /// Reads the content of the file at this path.
    ///
    /// # Errors
    /// All faults of the content, each with its line.
    pub fn parse(path: &Path, content: &str, now_ms: u64) -> Result<Self, Faults> {
        let mut cells = Cells::new(path, content);
        let drafts = drafts(&mut cells);
        shared::judge(&drafts, &mut cells);
        let Cells { mut faults, .. } = cells;
        faults.sort_by_key(cells::line);
        let principals = drafts.into_iter().filter_map(Draft::finish).collect();
        let mut access = Faults(faults).or(Self::new(principals))?;
        access.warnings = warnings::of_time(&access, now_ms);
        Ok(access)
    }
}

/// What can be read of each principal.
fn drafts(cells: &mut Cells<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut any = false;
    for (key, value) in &cells.parse() {
        any |= key.get_ref() == "principal";
        match value.get_ref() {
            DeValue::Array(items) if key.get_ref() == "principal" => {
                if items.is_empty() {
                    cells.fault(
                        key.span().start,
                        "principal",
                        "is an empty list, so nobody could call",
                    );
                }
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => {
                            drafts.push(Draft::read(item.span().start, table, cells));
                        }
                        _ => cells.fault(
                            item.span().start,
                            "principal",
                            "must be a table: write [[principal]]",
                        ),
                    }
                }
            }
            _ if key.get_ref() == "principal" => {
                cells.fault(
                    key.span().start,
                    "principal",
                    "must be a list of tables: write [[principal]]",
                );
            }
            _ => cells.fault(
                key.span().start,
                key.get_ref(),
                "is unknown: the file has tables [[principal]] alone",
            ),
        }
    }
    if !any && cells.faults.is_empty() {
        cells.fault_of_all("has no [[principal]], so nobody could call: \"tenure access init\" writes a file with one");
    }
    drafts
}
