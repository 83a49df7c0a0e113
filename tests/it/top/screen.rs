//! A terminal: what is visible after control sequences have moved the cursor.

/// The cells of a terminal.
pub struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

/// More rows and columns than any test has.
const ROWS: usize = 60;
const COLUMNS: usize = 200;

impl Screen {
    /// What is visible after this output.
    pub fn after(output: &str) -> Self {
        let cells = vec![vec![' '; COLUMNS]; ROWS];
        let mut screen = Self { cells, row: 0, column: 0 };
        let mut rest = output.chars();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' => screen.sequence(&mut rest),
                '\r' => screen.column = 0,
                '\n' => screen.row = (screen.row + 1).min(ROWS - 1),
                c => screen.put(c),
            }
        }
        screen
    }

    /// The lines, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let line = |cells: &Vec<char>| cells.iter().collect::<String>().trim_end().to_owned();
        self.cells.iter().map(line).collect()
    }

    fn put(&mut self, c: char) {
        if let Some(cell) = self.cells[self.row].get_mut(self.column) {
            *cell = c;
            self.column += 1;
        }
    }

    /// `ESC [ numbers letter`; other sequences are two characters long, and show nothing.
    fn sequence(&mut self, rest: &mut impl Iterator<Item = char>) {
        if rest.next() != Some('[') {
            return;
        }
        let mut parameters = String::new();
        let Some(last) = rest.find(|c| {
            let is_last = c.is_ascii_alphabetic();
            if !is_last {
                parameters.push(*c);
            }
            is_last
        }) else {
            return;
        };
        let number = |text: &str| text.parse::<usize>().unwrap_or(1).max(1) - 1;
        match last {
            'H' => {
                let (row, column) = parameters.split_once(';').unwrap_or((parameters.as_str(), ""));
                (self.row, self.column) = (number(row).min(ROWS - 1), number(column));
            }
            // The other screen, or all of this one.
            'J' => self.cells = vec![vec![' '; COLUMNS]; ROWS],
            'h' | 'l' if parameters == "?1049" => {
                self.cells = vec![vec![' '; COLUMNS]; ROWS];
                (self.row, self.column) = (0, 0);
            }
            _ => {}
        }
    }
}

#[test]
fn text_stands_where_the_cursor_was_moved() {
    let screen =
        Screen::after("lost\u{1b}[?1049h\u{1b}[2;3H\u{1b}[31mab\u{1b}[39m\u{1b}[1;1Hc\r\nd");
    assert_eq!(screen.lines()[..3], ["c", "d ab", ""]);
}
