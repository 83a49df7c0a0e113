//! Notifications: plugins that are told of ownership changes, at least once and per key in order.

mod embedded;
mod failures;
mod filters;
mod kinds;
mod kit;
mod nodes;
mod order;
