//! Screens as text files in the folder `tests`: `UPDATE=1` writes them anew. And what keys and answers change.

mod fixture;
mod keys;

use std::{env, fs, path::Path, time::Duration};

use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, style::Color, text::Span};

use self::fixture::{answered, events, failing, history, leases, press, well};
use super::{
    choice::By,
    state::{Kind, State},
    update::{Input, update},
    view::{Theme, draw},
};
use crate::client::ClientError;

const PLAIN: Theme = Theme::new(false);

fn drawn(state: &State, theme: Theme, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, theme, frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

/// The lines of a buffer, without blanks at their ends.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for cells in buffer.content().chunks(usize::from(buffer.area().width).max(1)) {
        let (mut line, mut hidden) = (String::new(), 0);
        for cell in cells {
            if hidden == 0 {
                line.push_str(cell.symbol());
                hidden = Span::raw(cell.symbol()).width();
            }
            hidden = hidden.saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Whether the state looks like the file on a terminal of 80×24.
#[track_caller]
fn looks_like(state: &State, name: &str) {
    let found = text(&drawn(state, PLAIN, 80, 24));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/cli/top/tests/{name}.txt"));
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{}: UPDATE=1 writes it anew\n{found}", path.display());
}

#[test]
fn three_failed_fences_among_five_thousand_keys_are_visible_at_once() {
    let mut state = failing();
    events(&mut state);
    looks_like(&state, "first");
    let screen = text(&drawn(&state, PLAIN, 80, 24));
    for key in ["disks/7", "disks/19", "disks/4021"] {
        assert!(screen.contains(key), "{key}");
    }
}

#[test]
fn what_an_entry_means_and_what_helps_is_below_the_list() {
    let mut state = failing();
    press(&mut state, "a");
    looks_like(&state, "attention");
}

#[test]
fn owners_of_a_store_where_all_is_well() {
    let mut state = well();
    press(&mut state, "2");
    answered(&mut state, By::Owners, None);
    looks_like(&state, "owners");
}

#[test]
fn the_history_of_a_key_has_its_tenures_and_events() {
    let mut state = failing();
    state.open(Kind::History("disks/7".into()));
    answered(&mut state, By::Keys, Some(history()));
    looks_like(&state, "history");
}

#[test]
fn the_leases_of_an_owner_have_states_and_times() {
    let mut state = well();
    state.open(Kind::OfOwner("worker-3".into()));
    answered(&mut state, By::Keys, Some(leases()));
    looks_like(&state, "leases");
}

#[test]
fn the_help_stands_over_the_page() {
    let mut state = well();
    press(&mut state, "?");
    looks_like(&state, "help");
}

#[test]
fn what_the_server_last_said_stays_while_it_does_not_answer() {
    let mut state = well();
    let lost = || ClientError::NoAnswer {
        server: "http://127.0.0.1:7373".into(),
        silence: Duration::from_secs(1),
    };
    let mut answer = fixture::answer(&state, By::Keys, None);
    (answer.status, answer.top) = (Err(lost()), Err(lost()));
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    let screen = text(&drawn(&state, PLAIN, 80, 24));
    assert!(screen.contains("NO ANSWER, trying again every 2s"), "{screen}");
    assert!(screen.contains("shards/17"), "{screen}");
    answered(&mut state, By::Keys, None);
    assert!(!text(&drawn(&state, PLAIN, 80, 24)).contains("NO ANSWER"));
}

#[test]
fn every_page_is_drawn_at_every_size() {
    let mut state = failing();
    events(&mut state);
    for opens in ["", "a", "e", "?"] {
        let mut state = state.clone();
        press(&mut state, opens);
        for width in [1, 2, 7, 20, 40, 80, 200] {
            for height in (1..12).chain([15, 16, 24, 60]) {
                let lines = text(&drawn(&state, PLAIN, width, height));
                assert_eq!(lines.lines().count(), usize::from(height), "{width}×{height}");
            }
        }
    }
    for (kind, found) in
        [(Kind::History("disks/7".into()), history()), (Kind::OfPool("disks".into()), leases())]
    {
        state.open(kind);
        answered(&mut state, By::Keys, Some(found));
        for height in 1..30 {
            drawn(&state, PLAIN, 80, height);
        }
    }
}

#[test]
fn a_critical_entry_is_red_where_there_are_colours_and_a_word_everywhere() {
    let state = failing();
    let colours = |theme| {
        let buffer = drawn(&state, theme, 80, 24);
        let colours = buffer.content().iter().map(|cell| cell.fg);
        colours.filter(|colour| *colour != Color::Reset).collect::<Vec<_>>()
    };
    assert!(colours(PLAIN).is_empty());
    assert!(colours(Theme::new(true)).contains(&Color::Red));
    assert!(text(&drawn(&state, PLAIN, 80, 24)).contains("CRITICAL"));
}

#[test]
fn a_name_cannot_draw_on_the_screen() {
    let mut state = well();
    let mut answer = fixture::answer(&state, By::Keys, None);
    answer.top.as_mut().unwrap().rows[0].name = "a\u{1b}[2J\u{202e}b".into();
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    let screen = text(&drawn(&state, PLAIN, 80, 24));
    assert!(screen.contains("a\\u{1b}[2J\\u{202e}b"), "{screen}");
}
