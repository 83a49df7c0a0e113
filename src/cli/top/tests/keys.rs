//! What keys and answers change.

use std::ops::ControlFlow;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::fixture::{self, answered, empty, events, failing, history, leases, press, well};
use crate::{
    cli::top::{
        asking::Detail,
        choice::{By, Window},
        state::{EVENTS, Kind, Shown, State},
        update::{Input, update},
    },
    client::{ClientError, Problem, StreamItem},
};

fn code(state: &mut State, code: KeyCode) -> ControlFlow<()> {
    update(state, Input::Press(KeyEvent::from(code)))
}

#[test]
fn q_and_ctrl_c_end_it_and_nothing_else_does() {
    let mut state = well();
    assert!(code(&mut state, KeyCode::Char('q')).is_break());
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(update(&mut state, Input::Press(ctrl_c)).is_break());
    for key in ('a'..='z').filter(|key| *key != 'q') {
        assert!(code(&mut state, KeyCode::Char(key)).is_continue(), "{key}");
    }
    for other in [KeyCode::Esc, KeyCode::Enter, KeyCode::Home, KeyCode::End, KeyCode::F(1)] {
        assert!(code(&mut state, other).is_continue(), "{other:?}");
    }
}

#[test]
fn enter_opens_the_history_of_the_chosen_key_and_escape_leads_back() {
    let mut state = well();
    press(&mut state, "j");
    let _ = code(&mut state, KeyCode::Enter);
    let key = "reports/team-7/monthly/eu-central-1";
    assert_eq!(state.page().kind, Kind::History(key.into()));
    assert_eq!(state.question().detail, Some(Detail::History(key.into())));
    answered(&mut state, By::Keys, Some(history()));
    assert!(state.detail.known().is_some());
    let _ = code(&mut state, KeyCode::Esc);
    assert_eq!((&state.page().kind, state.page().at), (&Kind::Top, 1));
    let _ = code(&mut state, KeyCode::Esc);
    assert_eq!(state.page().kind, Kind::Top, "the first page stays");
}

#[test]
fn enter_opens_the_leases_of_the_chosen_owner_and_from_there_a_history() {
    let mut state = well();
    let _ = code(&mut state, KeyCode::Tab);
    assert_eq!(state.choice.by, By::Owners);
    assert!(state.leads_to().is_none(), "nothing is known of owners yet");
    answered(&mut state, By::Owners, None);
    let _ = code(&mut state, KeyCode::Enter);
    assert_eq!(state.page().kind, Kind::OfOwner("worker-3".into()));
    let Some(Detail::Leases(filter)) = state.question().detail else { panic!("no leases") };
    assert_eq!(filter.owner.as_deref(), Some("worker-3"));
    assert!(filter.state.is_some_and(|states| !states.contains("free")));
    answered(&mut state, By::Owners, Some(leases()));
    let _ = code(&mut state, KeyCode::End);
    let _ = code(&mut state, KeyCode::Enter);
    assert_eq!(state.page().kind, Kind::History("shards/18".into()));
}

#[test]
fn enter_on_what_needs_a_person_opens_what_it_is_about() {
    let mut state = failing();
    press(&mut state, "ajj");
    let _ = code(&mut state, KeyCode::Enter);
    assert_eq!(state.page().kind, Kind::History("disks/4021".into()));
    let _ = code(&mut state, KeyCode::Esc);
    press(&mut state, "j");
    let _ = code(&mut state, KeyCode::Enter);
    assert_eq!(state.page().kind, Kind::OfPool("shards".into()));
}

#[test]
fn the_chosen_row_is_the_same_name_after_the_rows_have_changed_places() {
    let mut state = well();
    press(&mut state, "j");
    let mut answer = fixture::answer(&state, By::Keys, None);
    answer.top.as_mut().unwrap().rows[1].at_least = 1_000;
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    assert_eq!(state.page().at, 0);
    let mut answer = fixture::answer(&state, By::Keys, None);
    answer.top.as_mut().unwrap().rows.truncate(1);
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    assert_eq!(state.page().at, 0, "it is gone");
    // Nobody has chosen the first row, so it is whatever comes first.
    let mut state = well();
    let mut answer = fixture::answer(&state, By::Keys, None);
    answer.top.as_mut().unwrap().rows[2].at_least = 1_000;
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    assert_eq!((state.page().at, state.leads_to()), (0, Some(Kind::History("disks/7".into()))));
}

#[test]
fn a_choice_is_asked_for_and_an_answer_to_another_one_is_not_shown() {
    let mut state = well();
    let late = fixture::answer(&state, By::Keys, None);
    press(&mut state, "wc");
    let question = state.question().top;
    assert_eq!(question.window.as_deref(), Some(Window::Sixty.name()));
    assert_eq!(question.cause.as_deref(), Some("granted"));
    assert!(matches!(state.top, Shown::Awaited));
    let _ = update(&mut state, Input::Answer(Box::new(late)));
    assert!(matches!(state.top, Shown::Awaited), "it answers another question");
    answered(&mut state, By::Keys, None);
    press(&mut state, "sr");
    assert!(state.top.known().is_some(), "the order is not asked for");
    assert_eq!(state.ranked()[0].name, "shards/17", "by name, reversed");
    press(&mut state, "a1");
    assert!(state.top.known().is_some(), "on another page, nothing is chosen");
}

#[test]
fn a_refusal_is_told_in_place_of_what_it_refuses() {
    let mut state = well();
    let refused = || {
        let title = "you may not read this".to_owned();
        ClientError::Refused(Box::new(Problem { status: 403, title, ..Problem::default() }))
    };
    let told = refused().to_string();
    let mut answer = fixture::answer(&state, By::Keys, None);
    answer.top = Err(refused());
    let _ = update(&mut state, Input::Answer(Box::new(answer)));
    assert!(matches!(&state.top, Shown::Refused(why) if *why == told));
    assert!(state.problem.is_none(), "the status is known");
}

#[test]
fn events_are_kept_within_bounds_and_a_broken_stream_is_told() {
    let mut state = empty();
    for _ in 0..100 {
        events(&mut state);
    }
    assert_eq!(state.events.len(), EVENTS);
    let _ = update(&mut state, Input::Silence("refused\n".into()));
    assert_eq!(state.silence.as_deref(), Some("refused\\n"));
    let _ = update(&mut state, Input::Stream(StreamItem::Connected));
    assert_eq!(state.silence, None);
}

#[test]
fn any_key_closes_the_help_and_does_nothing_else() {
    let mut state = well();
    press(&mut state, "?");
    assert!(state.has_help);
    press(&mut state, "w");
    assert_eq!((state.has_help, state.choice.window), (false, Window::Ten));
}
