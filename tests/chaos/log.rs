//! A file of a history: one line for each event, written before anything follows from it, so that whoever is
//! killed leaves all that it believed.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::history::{Event, Line};

#[derive(Clone, Debug)]
pub struct Log(Arc<Mutex<File>>);

impl Log {
    pub fn create(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(Arc::new(Mutex::new(file.unwrap_or_else(|why| panic!("{}: {why}", path.display())))))
    }

    pub fn push(&self, t: u64, event: Event) {
        let mut line = serde_json::to_vec(&Line { t, event }).expect("JSON");
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).expect("the history can be written");
    }
}

/// All lines of all files of a directory, in the order of time. A line that its writer did not finish, when it
/// was killed, is not there.
pub fn gather(dir: &Path) -> Vec<Line> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).expect("the histories").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("readable");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let parsed = serde_json::from_str(line);
            all.push(parsed.unwrap_or_else(|why| panic!("{:?}: {line}: {why}", entry.path())));
        }
    }
    all.sort_by_key(|line: &Line| line.t);
    all
}
