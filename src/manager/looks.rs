//! Counts what a search looks at, while it looks: a search that its caller gives up is counted too.

/// Is told how many more records, keys or changes a search looked at.
pub type Looks<'a> = &'a (dyn Fn(usize) + Sync);

/// Counts nothing.
pub const UNCOUNTED: Looks<'static> = &|_| ();
