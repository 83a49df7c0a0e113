//! One program for most tests: a module for each group. nextest runs each test in a process of its own.

#[path = "../history/mod.rs"]
mod history;
#[path = "../support/mod.rs"]
mod support;

mod abuse;
mod access;
mod backup;
mod browser;
mod cache;
mod checker;
mod cli;
mod client;
mod core;
mod crash;
mod demo;
mod dynamodb;
mod embedded_store;
mod embedding;
mod fenced_writer;
mod fences;
mod floors;
mod fuzz;
mod guard;
mod hidden;
mod http;
mod manual;
mod mcp;
mod nats;
mod nodes;
mod notifications;
mod observability;
mod openapi;
mod packages;
mod plugins;
mod readme;
mod schemathesis;
mod shipped_file;
mod simstore;
mod stores;
mod stream;
mod tables;
mod tls;
mod top;
mod traces;
mod upgrade;
mod verify;
mod warm_gap;
mod work;
mod work_chaos;
