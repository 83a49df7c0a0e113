//! `tenure top --once`: a table for scripts.

use super::{
    asking::{Answer, Question, ask},
    choice::{By, Choice},
};
use crate::{
    cli::{
        attention,
        context::Context,
        exit::{Exit, Failure},
        figures::causes,
        output::{dash, shown, talk},
        when::brief,
    },
    client::TopRow,
};

/// Prints what changed most, and says on stderr what needs a person.
pub(super) async fn print(context: &Context, choice: &Choice, limit: u32) -> Result<Exit, Failure> {
    let question = Question { top: choice.filter(limit), detail: None };
    let Answer { status, top, .. } =
        ask(context.client.clone(), question, std::time::Duration::ZERO).await;
    let mut top = top?;
    top.rows = choice.sorted(&top.rows).into_iter().cloned().collect();
    let is_of_keys = choice.by == By::Keys;
    let mut heading = vec![choice.by.heading(), "AT_LEAST", "AT_MOST", "CAUSES"];
    if is_of_keys {
        heading.insert(1, "POOL");
    }
    context.output.list("changes", &top, &top.rows, &heading, |one| row(one, is_of_keys))?;
    if !context.output.format.is_json() {
        let (window, covers) = (brief(top.window_ms), brief(top.covers_ms));
        talk(&format!(
            "window {window}, covers {covers}; whatever is not listed changed {} times at most",
            top.others_at_most
        ));
        // Who may not see the status may still see what changed.
        if let Ok(status) = status {
            let entries = status.attention.len() as u64 + status.more;
            if entries > 0 {
                talk(&format!("{}: tenure status", attention::summary(entries)));
            }
        }
    }
    Ok(Exit::Done)
}

fn row(one: &TopRow, is_of_keys: bool) -> Vec<String> {
    let mut cells = vec![
        shown(&one.name),
        one.at_least.to_string(),
        one.at_most.to_string(),
        causes(&one.changes),
    ];
    if is_of_keys {
        cells.insert(1, one.pool.as_deref().map_or_else(dash, shown));
    }
    cells
}
