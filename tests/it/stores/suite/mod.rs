//! The demands, by theme. Each is a function of a [`crate::stores::subject::Subject`] that holds an empty store.

pub mod cas;
pub mod damage;
pub mod feed;
pub mod forget;
pub mod keys;
pub mod load;
pub mod meta;
pub mod nodes;
pub mod records;
pub mod scan;
