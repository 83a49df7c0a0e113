//! The DynamoDB store through its public face, on an endpoint in this process.

mod cas;
mod cost;
mod crash;
mod faults;
mod frozen;
mod gate;
mod history;
pub mod kit;
mod leave;
mod nodes;
mod order;
mod policy;
mod streams;
mod table;
