//! Where the demo shows itself: the picture on a terminal, and one line per change elsewhere.

use std::io::{self, IsTerminal, Write};

use super::{
    board::{SharedBoard, locked},
    picture::picture,
    scenario::FRAME,
};

/// Standard output. What cannot be written there is lost, and the demo goes on.
pub struct Screen {
    terminal: bool,
    styled: bool,
    /// The lines of the picture that is shown.
    height: usize,
}

impl Screen {
    pub fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, styled: terminal && !plain, height: 0 }
    }

    /// Draws again and again. `below` gives the lines below the picture.
    pub async fn draw(&mut self, board: &SharedBoard, below: impl Fn() -> Vec<String>) {
        loop {
            self.frame(board, &below());
            tokio::time::sleep(FRAME).await;
        }
    }

    /// Draws the picture in place of the one before. Elsewhere, prints the changes since.
    pub fn frame(&mut self, board: &SharedBoard, below: &[String]) {
        let mut out = String::new();
        if self.terminal {
            let picture = picture(&locked(board), self.styled, below);
            if self.height > 0 {
                out += &format!("\x1b[{}A\r", self.height);
            }
            self.height = picture.lines().count();
            // Lines of a taller picture may be below.
            out += &picture.replace('\n', "\x1b[K\n");
            out += "\x1b[J";
        } else {
            for line in locked(board).unsaid() {
                out += &line;
                out.push('\n');
            }
        }
        print(&out);
    }
}

/// Prints a text, as far as anybody reads it.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
