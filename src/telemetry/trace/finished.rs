//! A span that has ended, as it waits for its export.

use std::{borrow::Cow, sync::Arc};

/// The longest text of an attribute, in bytes. Callers choose some of these texts.
const MOST: usize = 512;

/// Which side of a call a span is. The numbers are those of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Work within the node.
    Internal = 1,
    /// A call that the node serves.
    Server = 2,
    /// A call that the node makes.
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Box<str>),
    Number(i64),
}

impl From<&str> for Value {
    /// A text; of a long one, its beginning.
    fn from(text: &str) -> Self {
        Self::Text(Box::from(&text[..text.floor_char_boundary(MOST)]))
    }
}

impl From<u64> for Value {
    /// A number. One that is beyond the numbers of an attribute is a text.
    fn from(number: u64) -> Self {
        match i64::try_from(number) {
            Ok(number) => Self::Number(number),
            Err(_) => Self::Text(number.to_string().into()),
        }
    }
}

/// The name of an attribute, and its value.
pub(super) type Attribute = (&'static str, Value);

/// A span that has ended.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub trace: u128,
    pub span: u64,
    /// The span that it is a part of; `None` for the first one of a trace.
    pub parent: Option<u64>,
    /// Whether that span was begun by another program.
    pub remote: bool,
    /// The header `tracestate` of the call.
    pub state: Option<Arc<str>>,
    pub name: Cow<'static, str>,
    pub kind: Kind,
    /// Nanoseconds since 1970.
    pub from: u64,
    /// Nanoseconds since 1970.
    pub to: u64,
    pub attributes: Vec<Attribute>,
    pub failed: bool,
}
