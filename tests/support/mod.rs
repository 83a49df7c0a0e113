//! What several test programs share.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look at processes from outside, by the clock that callers would read"
)]
#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

pub mod chromium;
pub mod clock;
pub mod dice;
pub mod dynamo_endpoint;
pub mod harness;
pub mod http;
pub mod nats_server;
pub mod node;
pub mod pool_worker;
pub mod ports;
pub mod postgres_server;
pub mod process;
pub mod processes;
pub mod proxy;
pub mod records;
pub mod seed;
pub mod tls;
