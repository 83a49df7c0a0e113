//! The examples of the document: requests that work, each with the answer that it gets.
//!
//! Together they tell one story, on a coordinator that has just started. An id or a token that an answer shows stands
//! in the requests that come later. `tests/it/openapi/examples.rs` has the order of the story, and tells it to a real
//! coordinator.
//!
//! The answers are made of the types that the handlers answer with. The requests are written as a caller types them.

mod admin;
mod call;
mod leases;
mod many_leases;
mod parameters;
mod refusals;
mod service;
mod sessions;
mod status;
mod values;

use std::collections::BTreeMap;

use utoipa::{
    Modify,
    openapi::{OpenApi as Spec, path::Operation},
};

use self::call::Call;

/// Adds examples to bodies, answers, parameters and refusals.
pub struct Examples;

impl Modify for Examples {
    fn modify(&self, spec: &mut Spec) {
        let items = spec.paths.paths.values_mut();
        let operations = items.flat_map(|item| [&mut item.get, &mut item.post, &mut item.delete]);
        let named = operations.flatten().filter_map(|one| Some((one.operation_id.clone()?, one)));
        let mut operations: BTreeMap<String, &mut Operation> = named.collect();
        for (name, operation) in &mut operations {
            parameters::add(name, operation);
            refusals::add(operation);
        }
        for call in calls() {
            let operation = operations.get_mut(call.operation);
            debug_assert!(operation.is_some(), "there is no operation {}", call.operation);
            if let Some(operation) = operation {
                call.add_to(operation);
            }
        }
    }
}

fn calls() -> impl Iterator<Item = Call> {
    let all = [
        service::calls(),
        status::calls(),
        leases::calls(),
        many_leases::calls(),
        sessions::calls(),
        admin::calls(),
    ];
    all.into_iter().flatten()
}
