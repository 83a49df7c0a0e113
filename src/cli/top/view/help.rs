//! The keys, over everything else.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    widgets::{Block, Clear, Paragraph, Widget as _},
};

use super::{fit::width, theme::Theme};

const KEYS: [&str; 15] = [
    "enter      history of the key, leases of the owner or pool",
    "esc        back",
    "up down    choose a row; also j k, page up and down, home, end",
    "",
    "a          what needs a person, with what helps",
    "e          events as they happen",
    "tab 1 2 3  keys, owners, pools",
    "w          window: 1m, 10m, 60m",
    "c C        only one cause, the next or the one before",
    "s r        order of the rows, and the other way round",
    "q ctrl-c   quit",
    "",
    "CHANGES 4–7 means: at least 4 and at most 7. Whatever is not",
    "listed changed so often at most as the bar says of others.",
    "docs/status.md explains the rest. Any key closes this.",
];

pub(super) fn draw(buffer: &mut Buffer, theme: Theme) {
    let widest = KEYS.iter().map(|line| width(line)).max().unwrap_or(0);
    let all = *buffer.area();
    let size = |inner: usize| u16::try_from(inner + 2).unwrap_or(u16::MAX);
    let (wide, high) = (size(widest + 2).min(all.width), size(KEYS.len()).min(all.height));
    let area = Rect {
        x: all.x + (all.width - wide) / 2,
        y: all.y + (all.height - high) / 2,
        width: wide,
        height: high,
    };
    let lines = KEYS.map(|line| format!(" {line}")).join("\n");
    let block = Block::bordered().title(" keys ").style(theme.plain());
    Clear.render(area, buffer);
    Paragraph::new(lines).block(block).render(area, buffer);
}
