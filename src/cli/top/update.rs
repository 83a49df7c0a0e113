//! What a key press, an answer or an event changes.

use std::ops::ControlFlow;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    asking::Answer,
    choice::By,
    state::{Kind, Shown, State},
};
use crate::{
    cli::output::shown,
    client::{ClientError, StreamItem},
};

/// How many rows the keys for pages go.
const PAGE: isize = 10;

/// What happens to the screen.
#[derive(Debug)]
pub(super) enum Input {
    Press(KeyEvent),
    Answer(Box<Answer>),
    Stream(StreamItem),
    /// The stream of events was refused, and is asked for again later.
    Silence(String),
}

/// Takes an input. `Break` ends the program.
pub(super) fn update(state: &mut State, input: Input) -> ControlFlow<()> {
    match input {
        Input::Press(key) => return press(state, key),
        Input::Answer(answer) => answered(state, *answer),
        Input::Stream(StreamItem::Event(event)) => state.keep(event),
        Input::Stream(StreamItem::Connected) => state.silence = None,
        Input::Stream(StreamItem::Disconnected { problem, .. }) | Input::Silence(problem) => {
            state.silence = Some(shown(&problem));
        }
    }
    ControlFlow::Continue(())
}

fn answered(state: &mut State, answer: Answer) {
    let Answer { question, status, top, detail } = answer;
    match status {
        Ok(status) => (state.status, state.problem) = (Some(status), None),
        Err(error) => state.problem = Some(told(&error)),
    }
    let asked = state.question();
    if question.top == asked.top {
        take(&mut state.top, top);
    }
    if let Some(detail) = detail.filter(|_| question.detail == asked.detail) {
        take(&mut state.detail, detail);
    }
    state.settle();
}

/// What was shown stays while the server cannot be reached: the head says so.
fn take<T>(shown: &mut Shown<T>, answer: Result<T, ClientError>) {
    match answer {
        Ok(known) => *shown = Shown::Known(known),
        Err(error) if error.problem().is_some() || shown.known().is_none() => {
            *shown = Shown::Refused(told(&error));
        }
        Err(_) => {}
    }
}

fn told(error: &ClientError) -> String {
    shown(&error.to_string())
}

fn press(state: &mut State, key: KeyEvent) -> ControlFlow<()> {
    if key.kind == KeyEventKind::Release {
        return ControlFlow::Continue(());
    }
    let has_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if has_ctrl => return ControlFlow::Break(()),
        KeyCode::Char('q') => return ControlFlow::Break(()),
        #[cfg(feature = "testing")]
        KeyCode::F(12) => panic!("F12 was pressed"),
        _ if state.has_help => state.has_help = false,
        KeyCode::Char('?' | 'h') => state.has_help = true,
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => state.close(),
        KeyCode::Enter | KeyCode::Right => {
            if let Some(page) = state.leads_to() {
                state.open(page);
            }
        }
        KeyCode::Char('a') => state.open(Kind::Attention),
        KeyCode::Char('e') => state.open(Kind::Events),
        KeyCode::Up | KeyCode::Char('k') => state.go(-1),
        KeyCode::Down | KeyCode::Char('j') => state.go(1),
        KeyCode::PageUp => state.go(-PAGE),
        KeyCode::PageDown => state.go(PAGE),
        KeyCode::Home => state.go(isize::MIN),
        KeyCode::End => state.go(isize::MAX),
        code => choose(state, code),
    }
    ControlFlow::Continue(())
}

/// Changes what is counted, and in which order it is shown.
fn choose(state: &mut State, code: KeyCode) {
    if state.page().kind != Kind::Top {
        return;
    }
    let before = state.choice.clone();
    let choice = &mut state.choice;
    match code {
        KeyCode::Tab => choice.by = choice.by.turned(false),
        KeyCode::BackTab => choice.by = choice.by.turned(true),
        KeyCode::Char('1') => choice.by = By::Keys,
        KeyCode::Char('2') => choice.by = By::Owners,
        KeyCode::Char('3') => choice.by = By::Pools,
        KeyCode::Char('w') => choice.window = choice.window.next(),
        KeyCode::Char('c') => choice.turn_cause(false),
        KeyCode::Char('C') => choice.turn_cause(true),
        KeyCode::Char('s') => choice.sort = choice.sort.next(choice.by),
        KeyCode::Char('r') => choice.is_reversed = !choice.is_reversed,
        _ => return,
    }
    if state.choice.filter(0) != before.filter(0) {
        state.top = Shown::Awaited;
    }
    state.settle();
}
