//! `tenure mcp`: the real program over pipes, as the client of an AI agent starts it, against a real coordinator.

pub mod client;
mod end;
mod lost;
mod messages;
mod tools;
mod waiting;
