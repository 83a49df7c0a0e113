//! What people see of a running coordinator: metrics, logs, dashboards, rules and alerts.
//!
//! Every test starts a real server as a child process on a free port. `real_prometheus` needs
//! Debian's `prometheus` package (`prometheus` and `promtool` on the path) and fails without it.

mod alerts;
mod dashboard;
mod expressions;
mod lint;
mod logs;
mod node;
mod page;
mod pools;
mod real_prometheus;
mod records;
mod scrape;
mod series;
mod upkeep;
mod workload;
