//! A call of a tool: reads which tool, and serves it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    answer::Answer,
    arguments::Arguments,
    claim::claim,
    extend::extend,
    hand_over::hand_over,
    holder::Holder,
    list::list,
    message::{Fault, INVALID_PARAMS},
    release::release,
    tools::Tool,
    wait::wait,
    who_has::who_has,
};

/// Reads the parameters of `tools/call`. The arguments are read by the tool, whose answer names what is wrong.
///
/// # Errors
/// If they name no tool, or the arguments are no object.
pub(super) fn read(mut params: Map<String, Value>) -> Result<(Tool, Arguments), Fault> {
    let Some(Value::String(name)) = params.remove("name") else {
        return Err(Fault::new(INVALID_PARAMS, "name must be a text: the name of a tool"));
    };
    let Some(tool) = Tool::named(&name) else {
        let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name()).collect();
        let fault = format!("name: there is no tool {name:?}; the tools are {}", names.join(", "));
        return Err(Fault::new(INVALID_PARAMS, fault));
    };
    match params.remove("arguments") {
        None | Some(Value::Null) => Ok((tool, Arguments::new(Map::new()))),
        Some(Value::Object(given)) => Ok((tool, Arguments::new(given))),
        Some(_) => Err(Fault::new(INVALID_PARAMS, "arguments must be an object")),
    }
}

/// Serves a call.
pub(super) async fn serve(holder: &Arc<Holder>, tool: Tool, given: Arguments) -> Answer {
    let answer = match tool {
        Tool::Claim => claim(holder, given).await,
        Tool::Extend => extend(holder, given).await,
        Tool::Release => release(holder, given).await,
        Tool::HandOver => hand_over(holder, given).await,
        Tool::WhoHas => who_has(holder, given).await,
        Tool::Wait => wait(holder, given).await,
        Tool::List => list(holder, given),
    };
    answer.unwrap_or_else(|refusal| refusal)
}
