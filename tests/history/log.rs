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
pub struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened at `t`, in nanoseconds on the run's one clock.
    pub fn push(&self, t: u64, event: Event) {
        self.lock().push(Line { t, event });
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// All that was written so far.
    pub fn lines(&self) -> Vec<Line> {
        self.lock().clone()
    }

    /// What was written so far, and an empty log from here on.
    pub fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.lock())
    }

    /// Writes JSON lines, which [`read`] and the program `tenure-history` read.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        write(&self.lock(), path)
    }
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
