//! What the workers work on, twice: a table that checks tokens, and one that does not.
//!
//! Each row counts the updates of one shard. A worker reads the count, and writes one more, as any program does that
//! keeps an offset, a balance or an index.

use std::collections::BTreeMap;

#[derive(Default)]
struct Row {
    count: u64,
    /// The highest token that was shown to this row.
    highest: u64,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Counted,
    /// A higher token was shown to this row before.
    Refused {
        highest: u64,
    },
    /// The row had changed since it was read: the updates in between are lost.
    Overwrote {
        before: u64,
        after: u64,
    },
}

/// A table with a row for each shard.
pub struct Table {
    checks_tokens: bool,
    rows: BTreeMap<String, Row>,
    /// Updates that were written.
    pub written: u64,
    /// Writes that were refused.
    pub refused: u64,
}

impl Table {
    fn new(checks_tokens: bool) -> Self {
        Self { checks_tokens, rows: BTreeMap::new(), written: 0, refused: 0 }
    }

    /// Reads the count of a shard. The table remembers the reader's token, so that no earlier owner writes after this.
    fn read(&mut self, key: &str, token: u64) -> u64 {
        let row = self.rows.entry(key.to_owned()).or_default();
        row.highest = row.highest.max(token);
        row.count
    }

    /// Writes one more than what was read.
    fn write(&mut self, key: &str, read: u64, token: u64) -> Outcome {
        let row = self.rows.entry(key.to_owned()).or_default();
        if self.checks_tokens && token < row.highest {
            self.refused += 1;
            return Outcome::Refused { highest: row.highest };
        }
        let (before, after) = (row.count, read + 1);
        row.count = after;
        self.written += 1;
        if before > read { Outcome::Overwrote { before, after } } else { Outcome::Counted }
    }

    /// The updates that the rows count.
    pub fn counted(&self) -> u64 {
        self.rows.values().map(|row| row.count).sum()
    }

    /// Updates that were written and are counted no more.
    pub fn lost(&self) -> u64 {
        self.written - self.counted()
    }
}

/// Both tables, which get the same reads and writes.
pub struct Tables {
    /// The one that checks tokens.
    pub checked: Table,
    /// The one that does not.
    pub unchecked: Table,
}

impl Default for Tables {
    fn default() -> Self {
        Self { checked: Table::new(true), unchecked: Table::new(false) }
    }
}

/// What a worker read of a shard, from both tables, and under which token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub key: String,
    pub token: u64,
    counts: [u64; 2],
}

impl Tables {
    pub fn read(&mut self, key: &str, token: u64) -> Read {
        let counts = [self.checked.read(key, token), self.unchecked.read(key, token)];
        Read { key: key.to_owned(), token, counts }
    }

    /// Writes to both tables. Returns what became of it in the table that checks tokens, and in the other one.
    pub fn write(&mut self, read: &Read) -> (Outcome, Outcome) {
        let Read { key, token, counts } = read;
        let checked = self.checked.write(key, counts[0], *token);
        (checked, self.unchecked.write(key, counts[1], *token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_write_is_refused_by_its_token_and_damages_the_other_table() {
        let mut tables = Tables::default();
        let late = tables.read("a", 7);
        for _ in 0..5 {
            let read = tables.read("a", 9);
            assert_eq!(tables.write(&read), (Outcome::Counted, Outcome::Counted));
        }
        let outcome = (Outcome::Refused { highest: 9 }, Outcome::Overwrote { before: 5, after: 1 });
        assert_eq!(tables.write(&late), outcome);
        let Tables { checked, unchecked } = tables;
        assert_eq!((checked.written, checked.counted(), checked.lost()), (5, 5, 0));
        assert_eq!((unchecked.written, unchecked.counted(), unchecked.lost()), (6, 1, 5));
        assert_eq!((checked.refused, unchecked.refused), (1, 0));
    }

    #[test]
    fn a_read_shuts_out_who_read_under_a_lower_token() {
        let mut tables = Tables::default();
        let (early, late) = (tables.read("a", 7), tables.read("a", 9));
        assert_eq!(tables.write(&early).0, Outcome::Refused { highest: 9 });
        assert_eq!(tables.write(&late).0, Outcome::Counted);
        assert_eq!(tables.checked.lost(), 0);
        assert_eq!(tables.unchecked.lost(), 1);
    }

    #[test]
    fn a_late_write_that_nobody_preceded_is_no_damage() {
        let mut tables = Tables::default();
        let read = tables.read("a", 7);
        assert_eq!(tables.write(&read), (Outcome::Counted, Outcome::Counted));
    }
}
