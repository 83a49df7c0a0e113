//! `tenure ls --watch`: the table, drawn anew after each pause.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    time::Duration,
};

use super::columns::{columns, row};
use crate::{
    cli::{
        context::Context,
        exit::{Exit, Failure},
        format::Format,
        output::{Output, shown, table},
        when,
    },
    client::LeaseView,
    clock::rfc3339,
    settings::format_duration,
};

/// The rows of a terminal whose size is not known.
const ROWS: usize = 24;

/// Lists until the process is ended. Only the first attempt may fail: a later one is made again.
pub(super) async fn follow(
    context: &Context,
    pause: Duration,
    list: impl AsyncFn() -> Result<Vec<LeaseView>, Failure>,
) -> Result<Exit, Failure> {
    let output = &context.output;
    let mut last = drawn(output, &list().await?);
    let mut problem: Option<String> = None;
    loop {
        let head = head(&context.client.servers(), pause, problem.as_deref());
        show(output, &head, &last)?;
        tokio::time::sleep(pause).await;
        problem = match list().await {
            Ok(leases) => {
                last = drawn(output, &leases);
                None
            }
            Err(Failure::Client(error)) => Some(shown(&error.to_string())),
            Err(failure) => return Err(failure),
        };
    }
}

fn head(servers: &str, pause: Duration, problem: Option<&str>) -> String {
    let (now, pause) = (rfc3339(when::now_ms()), format_duration(pause));
    match problem {
        None => format!("{now}  {servers}, every {pause}"),
        Some(problem) => format!("{now}  {problem}; trying again every {pause}"),
    }
}

fn drawn(output: &Output, leases: &[LeaseView]) -> String {
    let columns = columns(output.format == Format::Wide, leases);
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let now = when::now_ms();
    let rows: Vec<Vec<String>> = leases.iter().map(|lease| row(&columns, lease, now)).collect();
    table(&headings, &rows, output.styled)
}

/// Draws over what was drawn before on a terminal; elsewhere, appends.
fn show(output: &Output, head: &str, body: &str) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        return output.text(&format!("{head}\n{body}\n"));
    }
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let rows = size.map(|size| usize::from(size.ws_row)).filter(|&rows| rows > 0);
    output.text(&screen(head, body, rows.unwrap_or(ROWS)))
}

/// The control sequences and the text of one drawing: from the top, each line to its end, and no line broken.
fn screen(head: &str, body: &str, rows: usize) -> String {
    let lines: Vec<&str> = body.lines().collect();
    let room = rows.saturating_sub(2);
    let mut text = format!("\u{1b}[?7l\u{1b}[H{head}\u{1b}[K\r\n");
    let fits = if lines.len() > room { room.saturating_sub(1) } else { lines.len() };
    for line in &lines[..fits] {
        let _ = write!(text, "{line}\u{1b}[K\r\n");
    }
    if fits < lines.len() {
        let _ = write!(text, "… {} more\u{1b}[K\r\n", lines.len() - fits);
    }
    text.push_str("\u{1b}[J\u{1b}[?7h");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_fits_the_terminal_and_says_what_it_left_out() {
        let body = "KEY\na\nb\nc\n";
        let whole = screen("head", body, 24);
        assert!(whole.contains("head") && whole.contains("c\u{1b}[K") && !whole.contains("more"));
        let cut = screen("head", body, 5);
        assert!(cut.contains("a\u{1b}[K") && !cut.contains("b\u{1b}[K"), "{cut:?}");
        assert!(cut.contains("… 2 more"), "{cut:?}");
        assert_eq!(cut.matches("\r\n").count(), 4, "one line is left for the prompt");
    }
}
