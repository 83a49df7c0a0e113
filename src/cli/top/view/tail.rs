//! Events as lines.

use super::{
    fit::{Cut, fit},
    theme::{Painted, Theme},
};
use crate::{
    cli::{
        event_line::{change, time_of_day},
        output::shown,
        top::state::State,
    },
    client::Event,
};

/// The bar above the events, and why there are none if none arrive.
pub(super) fn bar(state: &State, theme: Theme, width: usize) -> Painted {
    let text = match &state.silence {
        None => "latest events".to_owned(),
        Some(problem) => format!("no events arrive, asking again: {problem}"),
    };
    Painted::new(fit(&text, width, Cut::End), theme.reversed())
}

/// The latest events in so many lines, the latest one last.
pub(super) fn latest(state: &State, theme: Theme, room: usize) -> Vec<Painted> {
    let skipped = state.events.len().saturating_sub(room);
    state.events.iter().skip(skipped).map(|event| line(event, theme)).collect()
}

/// `07:00:01.123  granted       shards/17  owner=w2 token=8 former=w1 former_token=7`.
pub(super) fn line(event: &Event, theme: Theme) -> Painted {
    let (time, kind) = (time_of_day(event), shown(&event.kind));
    let key = shown(event.key().unwrap_or("-"));
    let text = format!("{time:12}  {kind:13}  {key}  {}", change(event));
    Painted::new(text.trim_end(), theme.of_event(&event.kind))
}
