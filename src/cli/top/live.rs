//! The loop: keys, answers, events and signals change the state, and the state is drawn.

use std::{pin::Pin, time::Duration};

use ratatui::crossterm::event::Event;
use rustix::process::Signal;
use tokio::{
    sync::mpsc,
    time::{Sleep, timeout},
};

use super::{
    asking::{Answer, ask},
    past,
    state::State,
    terminal::{Screen, events},
    update::{Input, update},
    view::Theme,
};
use crate::{
    cli::{
        exit::{Exit, Failure},
        when::due,
    },
    client::{Client, ClientError, EventFilter, StreamItem},
    worker::signals::{Listener, listen},
};

/// The shortest time between two drawings that events of the store cause. A key press is drawn at once.
const FRAME: Duration = Duration::from_millis(100);
/// How many events may wait. The stream waits with them.
const QUEUE: usize = 256;
/// The pause before a stream that was refused is asked for again.
const AGAIN: Duration = Duration::from_secs(5);

/// Shows the state until the caller ends it. Only the first answer may be a failure.
pub(super) async fn run(client: &Client, mut state: State, theme: Theme) -> Result<Exit, Failure> {
    let mut asked = state.question();
    let first = ask(client.clone(), asked.clone(), Duration::ZERO).await;
    let _ = update(&mut state, Input::Answer(Box::new(checked(first)?)));
    let mut signals = Signals::new()?;
    let mut tail = tail(client.clone(), state.choice.prefix.clone());
    let mut screen = Screen::open()?;
    let mut pressed = events()?;
    let mut answer = Box::pin(ask(client.clone(), asked.clone(), state.interval));
    let mut frame: Option<Pin<Box<Sleep>>> = None;
    screen.draw(&state, theme)?;
    loop {
        let input = tokio::select! {
            biased;
            () = signals.any() => break,
            event = pressed.recv() => match event {
                Some(Event::Key(key)) => Some(Input::Press(key)),
                Some(_) => None,
                // The terminal is gone.
                None => break,
            },
            found = &mut answer => Some(Input::Answer(Box::new(found))),
            () = due(&mut frame) => None,
            Some(input) = tail.recv() => Some(input),
        };
        let is_answer = matches!(input, Some(Input::Answer(_)));
        let is_event = matches!(input, Some(Input::Stream(_) | Input::Silence(_)));
        if input.is_some_and(|input| update(&mut state, input).is_break()) {
            break;
        }
        let question = state.question();
        if is_answer || question != asked {
            let pause = if question == asked { state.interval } else { Duration::ZERO };
            asked = question;
            answer = Box::pin(ask(client.clone(), asked.clone(), pause));
        }
        if is_event {
            frame.get_or_insert_with(|| Box::pin(tokio::time::sleep(FRAME)));
            continue;
        }
        frame = None;
        screen.draw(&state, theme)?;
    }
    Ok(Exit::Done)
}

/// A failure if nothing can be shown, or if the caller asked for something that makes no sense.
fn checked(first: Answer) -> Result<Answer, Failure> {
    match first {
        Answer { status: Err(error), .. } => Err(error.into()),
        Answer { top: Err(ClientError::Refused(problem)), .. } if problem.status == 400 => {
            Err(ClientError::Refused(problem).into())
        }
        first => Ok(first),
    }
}

/// The signals that end the program in good order.
struct Signals([Listener; 3]);

impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self([listen(Signal::TERM)?, listen(Signal::INT)?, listen(Signal::HUP)?]))
    }

    async fn any(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            () = terminate.recv() => {}
            () = interrupt.recv() => {}
            () = hangup.recv() => {}
        }
    }
}

/// Some of the latest events of the store, and all that follow. Where the latest ones cannot be read, only what follows.
fn tail(client: Client, prefix: Option<String>) -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut filter = EventFilter { prefix, ..EventFilter::default() };
        if let Ok(Ok((events, next))) = timeout(AGAIN, past::latest(&client, &filter)).await {
            filter.after = Some(next);
            for event in events {
                if sender.send(Input::Stream(StreamItem::Event(event))).await.is_err() {
                    return;
                }
            }
        }
        loop {
            let mut stream = client.events(filter.clone());
            let problem = loop {
                match stream.next().await {
                    Ok(item) => {
                        if sender.send(Input::Stream(item)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => break error.to_string(),
                }
            };
            if sender.send(Input::Silence(problem)).await.is_err() {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    });
    receiver
}
