//! Backup, restore and raising the epoch: with the real program, on real stores.

#[path = "../common/dynamo_endpoint.rs"]
mod dynamo_endpoint;
mod embedded;
mod file;
#[path = "../common/nats_server.rs"]
mod nats_server;
mod node;
#[path = "../common/ports.rs"]
mod ports;
mod scenario;
mod shared;
