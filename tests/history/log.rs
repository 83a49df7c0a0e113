//! Where a run writes its history, and how it is read back.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Event, Line};

/// A history in the making, shared by all who write into it.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lines: Vec<Line>,
    /// Where lines go instead.
    file: Option<fs::File>,
}

impl Log {
    /// A history in a file. Each line is written before anything follows from it, so that whoever is killed leaves
    /// all that it believed.
    pub fn create(path: &Path) -> Self {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        Self(Arc::new(Mutex::new(Kept { lines: Vec::new(), file: Some(file) })))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened at `t`, in nanoseconds on the run's one clock.
    pub fn push(&self, t: u64, event: Event) {
        let mut kept = self.lock();
        let line = Line { t, event };
        match &mut kept.file {
            None => kept.lines.push(line),
            Some(file) => {
                let mut json = serde_json::to_vec(&line).expect("JSON");
                json.push(b'\n');
                file.write_all(&json).expect("the history can be written");
            }
        }
    }

    pub fn len(&self) -> usize {
        self.lock().lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().lines.is_empty()
    }

    /// All that was written so far, but to a file.
    pub fn lines(&self) -> Vec<Line> {
        self.lock().lines.clone()
    }

    /// What was written so far, and an empty log from here on.
    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut self.lock().lines)
    }

    /// Writes JSON lines, which [`read`] and the program `tenure-history` read.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        write(&self.lock().lines, path)
    }
}

/// All lines of all files of a directory, in the order of time.
pub fn gather(dir: &Path) -> Vec<Line> {
    let files = fs::read_dir(dir).expect("the histories").flatten();
    let read = |file: fs::DirEntry| read(&file.path()).unwrap_or_else(|why| panic!("{why}"));
    let mut all: Vec<Line> = files.flat_map(read).collect();
    all.sort_by_key(|line| line.t);
    all
}

/// Writes JSON lines.
pub fn write(lines: &[Line], path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for line in lines {
        serde_json::to_writer(&mut file, line)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Reads JSON lines. A last line without an end is left out: its writer was killed.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line)
                .map_err(|error| format!("{}:{}: {error}", path.display(), at + 1))
        })
        .collect()
}
