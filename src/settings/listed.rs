//! The tables of a list, `[[policy]]` or `[[plugin]]`. Only a file can have them.

use std::{path::PathBuf, sync::Arc};

use config::Value;

use super::fault::{Fault, Origin};

/// The lists that a file may have.
pub(super) const LISTS: [&str; 2] = ["policy", "plugin"];

/// One table of a list, as it is in the file.
#[derive(Clone, Debug)]
pub(super) struct ListedTable {
    pub(super) list: String,
    pub(super) path: Arc<PathBuf>,
    pub(super) line: usize,
    pub(super) cells: Vec<Cell>,
}

/// A key of such a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Value,
}

impl ListedTable {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.cell(key).map(|cell| &cell.value)
    }

    /// The fault of a key, at the key's line, or at the table's line if it has no such key.
    pub(super) fn fault(&self, key: &str, problem: impl Into<String>) -> Fault {
        let key_of_list = Some(format!("{}.{key}", self.list));
        Fault { origin: self.origin(key), key: key_of_list, problem: problem.into() }
    }

    fn cell(&self, key: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.key == key)
    }

    fn origin(&self, key: &str) -> Origin {
        let line = self.cell(key).map_or(self.line, |cell| cell.line);
        Origin::File { path: self.path.clone(), line: Some(line) }
    }
}

/// The origins of the values in the tables of one list, by names such as `policy[0].prefix`.
pub(super) fn origins(tables: &[ListedTable]) -> impl Iterator<Item = (String, Origin)> + '_ {
    tables.iter().enumerate().flat_map(|(at, table)| {
        let name = move |cell: &Cell| format!("{}[{at}].{}", table.list, cell.key);
        table.cells.iter().map(move |cell| (name(cell), table.origin(&cell.key)))
    })
}
