//! The terminal: taken over as a whole, and given back as it was.

use std::{
    env,
    io::{self, IsTerminal as _, stdin, stdout},
    thread,
};

use ratatui::{
    DefaultTerminal, Terminal, TerminalOptions, Viewport,
    backend::CrosstermBackend,
    crossterm::{
        event::{Event, read},
        terminal::is_raw_mode_enabled,
    },
    layout::Rect,
};
use tokio::sync::mpsc;

use super::{
    state::State,
    view::{Theme, draw},
};

/// The size of a terminal that does not tell its own.
const USUAL: Rect = Rect { x: 0, y: 0, width: 80, height: 24 };
/// How many key presses may wait. A person is slower.
const QUEUE: usize = 64;

/// Whether a screen can be drawn, and keys can be read.
pub(super) fn is_usable() -> bool {
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !is_dumb
}

/// The screen. The terminal is as before when this is dropped, and also when the program panics.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    // Dropped after the terminal, which shows its cursor again.
    _restored: Restored,
}

struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // After a panic, it is restored already, and the message stands on it.
        if is_raw_mode_enabled().unwrap_or(true) {
            let _ = ratatui::try_restore();
        }
    }
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let restored = Restored;
        let mut terminal = ratatui::try_init()?;
        let size = terminal.size()?;
        if size.width == 0 || size.height == 0 {
            let options = TerminalOptions { viewport: Viewport::Fixed(USUAL) };
            terminal = Terminal::with_options(CrosstermBackend::new(stdout()), options)?;
        }
        Ok(Self { terminal, _restored: restored })
    }

    pub(super) fn draw(&mut self, state: &State, theme: Theme) -> io::Result<()> {
        self.terminal.draw(|frame| draw(state, theme, frame.buffer_mut()))?;
        Ok(())
    }
}

/// What the terminal sends, until it is gone.
pub(super) fn events() -> io::Result<mpsc::Receiver<Event>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    // It may wait in `read` until the process ends.
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
