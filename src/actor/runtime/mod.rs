//! What actors and tasks run on: threads, the registry that finds a key's actor, the promise cells, the way to ask an
//! actor, the outcomes of writes, the bus with its topics, the followers of single tenures, the changes of traced calls,
//! results that take long to make, and tasks that must not end. It knows no particular actor: the registry starts them by a function that it is given.

pub(in crate::actor) mod arbiters;
pub(in crate::actor) mod aside;
pub(in crate::actor) mod ask;
pub(in crate::actor) mod bus;
pub(in crate::actor) mod cells;
pub(in crate::actor) mod exit_notice;
pub(in crate::actor) mod fence;
pub(in crate::actor) mod followers;
pub(in crate::actor) mod inbox;
pub(in crate::actor) mod outcomes;
pub(in crate::actor) mod registry;
pub(in crate::actor) mod restarts;
pub(in crate::actor) mod shown;
pub(in crate::actor) mod stuck;
pub(in crate::actor) mod tasks;
pub(in crate::actor) mod topics;
pub(in crate::actor) mod traced_changes;
pub mod watch;
