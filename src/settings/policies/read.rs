//! Reads `[[policy]]`. A fault of one value hides no other fault.

use super::{
    super::{
        fault::Fault,
        listed::{Cell, ListedTable},
        table::Section as _,
        value::say,
    },
    policy::Policy,
};

/// Reads the tables of a file.
pub(in crate::settings) fn read(tables: &[ListedTable], faults: &mut Vec<Fault>) -> Vec<Policy> {
    tables.iter().map(|table| read_one(table, faults)).collect()
}

fn read_one(table: &ListedTable, faults: &mut Vec<Fault>) -> Policy {
    let mut policy = Policy::default();
    for cell in &table.cells {
        if let Err(problem) = set(&mut policy, cell) {
            faults.push(table.fault(&cell.key, problem));
        }
    }
    let missing = |key: &&str| table.get(key).is_none();
    let required = Policy::ROWS.iter().filter(|row| row.about.required).map(|row| row.about.key);
    faults.extend(required.filter(missing).map(|key| table.fault(key, "must be given")));
    policy
}

fn set(policy: &mut Policy, cell: &Cell) -> Result<(), String> {
    let Some(row) = Policy::ROWS.iter().find(|row| row.about.key == cell.key) else {
        let keys: Vec<&str> = Policy::ROWS.iter().map(|row| row.about.key).collect();
        return Err(format!("no such key; [[policy]] has {}", keys.join(", ")));
    };
    (row.set)(policy, cell.value.clone()).map_err(|error| say(&error))
}
