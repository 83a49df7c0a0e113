//! The arguments of a tool. What is wrong with one is said by its name, so that the agent can mend its call.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::{Map, Value};

use super::answer::Answer;
use crate::{
    api::limits::MAX_REASON_BYTES,
    cli::args::millis,
    lease::{Key, Owner},
    manager::MAX_VALUE_BYTES,
};

/// How long one call waits, in seconds. Many clients give up a call after 60 s.
pub(super) const WAIT_SECONDS: RangeInclusive<u32> = 0..=50;
/// How long a lease lasts without a heartbeat, in seconds. A policy may allow less.
pub(super) const TTL_SECONDS: RangeInclusive<u32> = 1..=86_400;

/// The arguments that have not been read yet.
#[derive(Debug)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// An argument that is null counts as absent.
    pub(super) fn new(mut given: Map<String, Value>) -> Self {
        given.retain(|_, value| !value.is_null());
        Self(given)
    }

    /// The key, which every tool but one needs.
    pub(super) fn key(&mut self) -> Result<String, Answer> {
        let key = self.text("key")?.ok_or_else(|| Answer::wrong("key", "is missing"))?;
        Key::new(&key).map_err(|why| Answer::wrong("key", &why.to_string()))?;
        Ok(key)
    }

    /// The name of an owner.
    pub(super) fn owner(&mut self, field: &str) -> Result<Option<String>, Answer> {
        let owner = self.text(field)?;
        if let Some(owner) = &owner {
            Owner::new(owner).map_err(|why| Answer::wrong(field, &why.to_string()))?;
        }
        Ok(owner)
    }

    /// A value for the next holder.
    pub(super) fn value(&mut self) -> Result<Option<String>, Answer> {
        let value = self.text("value")?;
        match &value {
            Some(value) if value.len() > MAX_VALUE_BYTES => {
                let (length, most) = (value.len(), MAX_VALUE_BYTES);
                let why = format!("is {length} bytes long; at most {most} are allowed");
                Err(Answer::wrong("value", &why))
            }
            _ => Ok(value),
        }
    }

    /// Why a key is given up.
    pub(super) fn reason(&mut self) -> Result<Option<String>, Answer> {
        let reason = self.text("reason")?;
        match reason.as_deref().map(str::len) {
            Some(length) if !(1..=MAX_REASON_BYTES).contains(&length) => {
                let why =
                    format!("is {length} bytes long; it must be from 1 to {MAX_REASON_BYTES}");
                Err(Answer::wrong("reason", &why))
            }
            _ => Ok(reason),
        }
    }

    /// A fencing token.
    pub(super) fn token(&mut self) -> Result<Option<u64>, Answer> {
        let Some(given) = self.0.remove("token") else { return Ok(None) };
        let wrong = || Answer::wrong("token", "must be a whole number, as an answer had it");
        given.as_u64().map(Some).ok_or_else(wrong)
    }

    /// A time in seconds, in whole milliseconds.
    pub(super) fn seconds(
        &mut self,
        field: &str,
        bounds: &RangeInclusive<u32>,
    ) -> Result<Option<Duration>, Answer> {
        let Some(given) = self.0.remove(field) else { return Ok(None) };
        let (least, most) = (*bounds.start(), *bounds.end());
        let span = given
            .as_f64()
            .filter(|seconds| (f64::from(least)..=f64::from(most)).contains(seconds))
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match span {
            Some(span) => Ok(Some(Duration::from_millis(millis(span)))),
            None => {
                let why = format!("must be a number of seconds from {least} to {most}");
                Err(Answer::wrong(field, &why))
            }
        }
    }

    /// Checks that every argument was read.
    pub(super) fn end(self) -> Result<(), Answer> {
        match self.0.keys().next() {
            Some(field) => Err(Answer::wrong(field, "is not known to this tool")),
            None => Ok(()),
        }
    }

    fn text(&mut self, field: &str) -> Result<Option<String>, Answer> {
        match self.0.remove(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Answer::wrong(field, "must be a text")),
        }
    }
}
