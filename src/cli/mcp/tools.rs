//! The tools: their names, and what a model is told of them.

use serde_json::{Value, json};

use super::arguments::{TTL_SECONDS, WAIT_SECONDS};

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Claim,
    Extend,
    Release,
    HandOver,
    WhoHas,
    Wait,
    List,
}

impl Tool {
    /// All of them, in the order in which an agent needs them.
    pub(super) const ALL: [Self; 7] = [
        Self::Claim,
        Self::Extend,
        Self::Release,
        Self::HandOver,
        Self::WhoHas,
        Self::Wait,
        Self::List,
    ];

    /// The tool with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The name by which clients call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Extend => "extend",
            Self::Release => "release",
            Self::HandOver => "hand_over",
            Self::WhoHas => "who_has",
            Self::Wait => "wait",
            Self::List => "list",
        }
    }

    /// Whether a call may wait for others, for as long as the agent says. Such calls are given up when the process
    /// ends.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Claim | Self::Wait)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Claim => "Claim a key",
            Self::Extend => "Confirm that a key is still held",
            Self::Release => "Release a key",
            Self::HandOver => "Hand a key over to the next holder",
            Self::WhoHas => "See who holds a key",
            Self::Wait => "Wait until the holder of a key is done",
            Self::List => "List the keys that you hold",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Claim => {
                "Claim a key, so that nobody else works on what it names. On success you are the \
                 only holder, and get a fencing token: a number that is higher than every earlier \
                 token of this key. Send the token with every write that you make under the claim, \
                 so that the resource can refuse a write with a lower one: a holder that was \
                 paused does not notice that it lost the key. The lease is renewed for you until \
                 you release it, hand it over, or your client stops this server. If somebody else \
                 holds the key, the answer says who: then do not work on it. With wait_seconds you \
                 stand in the key's queue (first come, first served); to wait longer, call again, \
                 at the end of the queue."
            }
            Self::Extend => {
                "Confirm with the server that you still hold a key that you claimed. The answer \
                 says for how many seconds you may rely on it from now. Call it before every step \
                 that must not happen twice. If the answer says STOP, you have lost the key: write \
                 nothing more under its token."
            }
            Self::Release => {
                "Give a key back when your work on it is finished or stopped. Stop first, then \
                 release: the next holder may begin at once. A value that you leave is shown to \
                 the next holder."
            }
            Self::HandOver => {
                "Give a key to the next holder without a gap: to the first in its queue or, with \
                 `to`, to the owner of that name, for whom the key is kept for a while. Stop your \
                 work on it first. The value (for example how far you came) is shown to the next \
                 holder, who gets a higher token."
            }
            Self::WhoHas => {
                "See who holds a key, since when and under which token, how many wait for it, and \
                 the value that its last holder left. Takes nothing and changes nothing."
            }
            Self::Wait => {
                "Wait until the present holder of a key is done: until it released the key, lost \
                 it or handed it over. Takes nothing: use `claim` with wait_seconds to be the next \
                 holder. With a token you wait for the end of the tenure that `who_has` showed \
                 you, and learn at once if it is over already."
            }
            Self::List => {
                "List the keys that you hold, with their tokens and the seconds for which you may \
                 rely on each, and your own owner name. Use it when you no longer know what you \
                 claimed."
            }
        }
    }

    /// What a client may assume of it.
    fn annotations(self) -> Value {
        let reads = matches!(self, Self::WhoHas | Self::Wait | Self::List);
        let idempotent = reads || self == Self::Extend;
        json!({
            "readOnlyHint": reads,
            "destructiveHint": false,
            "idempotentHint": idempotent,
            "openWorldHint": false,
        })
    }

    /// The JSON Schema of its arguments.
    fn schema(self) -> Value {
        let properties = match self {
            Self::Claim => json!({
                "key": key(),
                "ttl_seconds": ttl(),
                "wait_seconds": wait("how long to stand in the key's queue if it is held; 0 by default"),
                "value": value("Replaces the value that the last holder left, which you are then not shown."),
            }),
            Self::Extend | Self::WhoHas => json!({ "key": key() }),
            Self::Release => json!({
                "key": key(),
                "value": value("The next holder reads it."),
                "reason": reason(),
            }),
            Self::HandOver => json!({
                "key": key(),
                "to": {
                    "type": "string",
                    "description": "Name of the next owner, as `list` shows it to that agent. \
                     Without it, the first in the queue.",
                },
                "value": value("The next holder reads it."),
                "reason": reason(),
            }),
            Self::Wait => json!({
                "key": key(),
                "token": {
                    "type": "integer",
                    "description": "Token of the tenure whose end you await; by default that of the present holder.",
                },
                "wait_seconds": wait("how long to wait; 20 by default"),
            }),
            Self::List => json!({}),
        };
        let required: &[&str] = if self == Self::List { &[] } else { &["key"] };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn listed(self) -> Value {
        json!({
            "name": self.name(),
            "title": self.title(),
            "description": self.description(),
            "inputSchema": self.schema(),
            "annotations": self.annotations(),
        })
    }
}

/// The answer to `tools/list`.
pub(super) fn listed() -> Value {
    let tools: Vec<Value> = Tool::ALL.into_iter().map(Tool::listed).collect();
    json!({ "tools": tools })
}

fn key() -> Value {
    json!({
        "type": "string",
        "description": "Name of what only one holder may work on at a time, such as \
         deploy/production. Everybody who works on it must use the same name.",
    })
}

fn value(what: &str) -> Value {
    let description =
        format!("A note for the next holder, at most 16 KiB. {what} Put no secrets into it.");
    json!({ "type": "string", "description": description })
}

fn reason() -> Value {
    let description = "Why you give the key up, if the work is not done, such as `the tests fail`. At most 256 bytes. \
                       People who look after the key see it in its history. Put no secrets into it.";
    json!({ "type": "string", "description": description })
}

fn ttl() -> Value {
    let (least, most) = (*TTL_SECONDS.start(), *TTL_SECONDS.end());
    json!({
        "type": "number",
        "minimum": least,
        "maximum": most,
        "description": "How long the key stays yours if this process dies or is cut off, in \
         seconds. It is no limit for your work: leases are renewed for you. The default is good.",
    })
}

fn wait(what: &str) -> Value {
    let (least, most) = (*WAIT_SECONDS.start(), *WAIT_SECONDS.end());
    let description = format!("Seconds, at most {most}: {what}. Call again to wait longer.");
    json!({ "type": "number", "minimum": least, "maximum": most, "description": description })
}
