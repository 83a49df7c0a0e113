//! How the state is drawn. The same state and size always give the same cells.

mod body;
mod details;
mod fit;
mod grid;
mod head;
mod help;
mod tail;
mod theme;

use ratatui::buffer::Buffer;

pub(super) use self::theme::Theme;
use self::{
    fit::{Cut, fit},
    theme::Painted,
};
use super::state::{Kind, State};

/// What the last line says of the first page, and of the others.
const FIRST: &str =
    "? help  enter open  a attention  e events  tab what  w window  c cause  q quit";
const OTHERS: &str = "? help  esc back  enter open  up down choose  q quit";

/// Draws the state over the whole buffer. What does not fit is left out from the end of the page.
pub(super) fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let area = *buffer.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let Some(above) = height.checked_sub(1) else { return };
    let mut lines = head::lines(state, theme, width, height);
    let room = above.saturating_sub(lines.len());
    lines.extend(body::lines(state, theme, width, room));
    lines.resize(above, Painted::new("", theme.plain()));
    let foot = if state.page().kind == Kind::Top { FIRST } else { OTHERS };
    lines.push(Painted::new(fit(foot, width, Cut::End), theme.strong()));
    for (row, line) in area.rows().zip(&lines) {
        buffer.set_stringn(row.x, row.y, fit(&line.text, width, Cut::End), width, line.style);
    }
    if state.has_help {
        help::draw(buffer, theme);
    }
}
